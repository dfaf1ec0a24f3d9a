"""The stage runner: nothing that went wrong may look good."""

import sys
from pathlib import Path

import pytest

from tests import stages
from tests.stages import (
    NO_CAPTURES,
    Ended,
    Player,
    Result,
    Stage,
    cases,
    is_absent,
    judge,
    play_beside,
    summary,
    verdict,
)

REPORT = """<testsuites><testsuite>
  <testcase classname="t" name="good"/>
  <testcase classname="t" name="bad"><failure message="no">no</failure></testcase>
  <testcase classname="t" name="broken"><error message="no">no</error></testcase>
  <testcase classname="t" name="known"><skipped type="pytest.xfail" message="known"/></testcase>
  <testcase classname="t" name="left"><skipped type="pytest.skip" message="needs root"/></testcase>
</testsuite></testsuites>"""
ONLY_A_SKIP = '<testsuite><testcase classname="t" name="x"><skipped message="no qemu"/></testcase></testsuite>'
NO_CAPTURE = ONLY_A_SKIP.replace("no qemu", NO_CAPTURES)


PYTEST = Stage("g", "some", ("pytest",))


def test_errors_count_as_failed_and_expected_failures_as_passed() -> None:
    assert [outcome for _, outcome, _ in cases(REPORT)] == ["passed", "failed", "failed", "passed", "skipped"]


def test_a_skip_fails_its_stage_in_ci() -> None:
    result = judge(Ended(PYTEST, 1.0, 0, ONLY_A_SKIP), skips_fail=True)
    assert not result.is_good
    assert result.skipped == ("t.x: no qemu",)


def test_a_skip_is_listed_elsewhere() -> None:
    result = judge(Ended(PYTEST, 1.0, 0, ONLY_A_SKIP), skips_fail=False)
    assert result.is_good
    assert "skipped in some: t.x: no qemu" in list(summary([result], 1.0))


def test_only_a_skip_for_exactly_the_excused_reason_is_good_in_ci() -> None:
    ends = [
        Ended(PYTEST, 1.0, 0, report) for report in (NO_CAPTURE, NO_CAPTURE.replace("no cap", "No cap"), ONLY_A_SKIP)
    ]
    assert [judge(ended, skips_fail=True, excused=NO_CAPTURES).is_good for ended in ends] == [True, False, False]
    assert not judge(ends[0], skips_fail=True).is_good
    assert not judge(Ended(PYTEST, 1.0, 0, ONLY_A_SKIP.replace("no qemu", "")), skips_fail=True).is_good


def test_an_excused_skip_is_listed_and_excuses_no_other() -> None:
    both = f"<testsuites>{NO_CAPTURE}{ONLY_A_SKIP}</testsuites>"
    result = judge(Ended(PYTEST, 1.0, 0, both), skips_fail=True, excused=NO_CAPTURES)
    assert verdict(result) == "FAILED (1 skipped, and CI=true means that nothing may be)"
    assert f"skipped in some: t.x: {NO_CAPTURES}" in list(summary([result], 1.0))


def test_a_folder_that_is_empty_or_a_link_that_leads_nowhere_is_not_absent(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "file").touch()
    (tmp_path / "elsewhere").symlink_to(tmp_path)
    names = (".", "link", "link/sysfs", "none", "none/sysfs", "file/sysfs", "elsewhere/sysfs")
    absent = [name for name in names if is_absent(tmp_path / name)]
    assert absent == ["none", "none/sysfs", "file/sysfs", "elsewhere/sysfs"]


def test_what_failed_is_named_at_the_end() -> None:
    result = judge(Ended(PYTEST, 1.0, 1, REPORT), skips_fail=False)
    lines = list(summary([result], 1.0))
    assert lines[lines.index("failed in some: t.bad") + 1] == "    no"
    assert "failed in some: t.broken" in lines


def test_pytest_without_a_report_is_a_failure() -> None:
    assert not judge(Ended(PYTEST, 1.0, 0), skips_fail=False).is_good


def test_a_report_that_is_cut_off_is_a_failure_of_its_stage_alone() -> None:
    result = judge(Ended(PYTEST, 1.0, -9, REPORT[:150]), skips_fail=False)
    assert not result.is_good
    assert "cannot be read" in verdict(result)


def test_a_status_other_than_zero_is_a_failure_whatever_the_report_says() -> None:
    assert not judge(Ended(PYTEST, 1.0, 5, "<testsuite/>"), skips_fail=False).is_good


@pytest.mark.parametrize(("program", "good"), [("pass", True), ("raise SystemExit(3)", False)])
def test_a_command_is_as_good_as_its_exit_status(program: str, good: bool) -> None:
    assert Player().run(Stage("g", "some", (sys.executable, "-c", program))).is_good == good


def test_a_stage_that_hangs_is_ended_and_named() -> None:
    hanging = Stage("g", "some", (sys.executable, "-c", "import signal; signal.pause()"), limit_seconds=0.5)
    assert verdict(Player().run(hanging)) == "FAILED (not done after 0 s)"


def test_the_last_line_counts_a_broken_stage_as_a_failure() -> None:
    results = [Result("a", 1.0, 5, 0), Result("b", 1.0, 0, 0, problem="no report"), Result("c", 1.0, 3, 2)]
    assert list(summary(results, 3.0))[-1] == "8 passed, 3 failed in 3 s"


def printing(name: str, program: str, *, lane: int) -> Stage:
    return Stage("g", name, (sys.executable, "-c", program), lane=lane)


def test_lanes_run_at_the_same_time_and_the_output_of_a_stage_stays_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = str(tmp_path / "pipe")
    reader = f"import os; os.mkfifo({pipe!r}); print('one'); print(open({pipe!r}).read())"
    writer = f"""import os, pathlib
while not (pipe := pathlib.Path({pipe!r})).is_fifo(): pass
print('from b'); pipe.write_text('two')"""
    results = play_beside([[printing("a", reader, lane=1)], [printing("b", writer, lane=2)]])
    assert [(result.stage, result.is_good) for result in results] == [("a", True), ("b", True)]
    assert "one\ntwo\n" in capsys.readouterr().out


def test_a_player_that_is_stopped_begins_no_other_stage() -> None:
    player = Player(is_beside=True)
    player.stop()
    assert player.play([PYTEST]) == []


def test_an_unknown_stage_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert stages.main(["chekc"]) == 2
    assert "chekc" in capsys.readouterr().err
