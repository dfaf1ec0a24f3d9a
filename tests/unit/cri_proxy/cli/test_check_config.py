import json
import random
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

from cri_proxy.cli.check_config import check, compare, render_report
from cri_proxy.cli.layers.report import ConfigReport, OptionChange
from cri_proxy.cli.main import run_command
from cri_proxy.config.last_known_good import KNOWN_GOOD, KnownGood
from cri_proxy.config.load import parse_config
from cri_proxy.http.routes import config_json
from cri_proxy.node.status.decision_views import PlanView
from cri_proxy.node.status.model import ConfigurationView, StatusView
from cri_proxy.state.decisions import PinningChange
from cri_proxy.steps import Steps
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from tests.fakes.serving import served
from tests.fakes.sysfs_tree import write_tree
from tests.fakes.views import FixedDaemon, container, status_view
from tests.testbed.certificates import self_signed

TEXT = "adopt: leave\nreservedResources: {cpu: 750m}\n"
RUN = ["run", "--config"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "c.yaml").write_text(TEXT)
    return tmp_path / "c.yaml"


def test_without_a_daemon_it_is_held_against_the_defaults(path: Path, tmp_path: Path) -> None:
    report = check(path, tmp_path / "a.sock")
    assert (report.valid, report.against) == (True, "defaults")
    assert report.changes == (
        OptionChange("reservedResources.cpu", "none", "750m"),
        OptionChange("adopt", "pin", "leave"),
    )


def test_with_a_daemon_it_is_held_against_what_that_runs(path: Path, tmp_path: Path) -> None:
    with served(tmp_path / "a.sock", FixedDaemon(parse_config("adopt: leave"))):
        report = check(path, tmp_path / "a.sock")
    assert report.changes == (OptionChange("reservedResources.cpu", "none", "750m"),)
    assert "against the running daemon" in render_report(report)


def test_what_the_file_does_not_say_is_told_apart(path: Path, tmp_path: Path) -> None:
    with served(tmp_path / "a.sock", FixedDaemon(parse_config(f"{TEXT}http: off"))):
        report = check(path, tmp_path / "a.sock")
    assert report.changes == (OptionChange("http", "off", "127.0.0.1:8891", is_in_file=False, needs_restart=True),)
    assert "unless set on the daemon's command line:\n  http  off ->" in render_report(report)


def overriding(text: str, *keys: str) -> FixedDaemon:
    """A daemon with this configuration whose command line sets these options."""
    daemon = FixedDaemon(parse_config(text))
    daemon.configuration = ConfigurationView("/c", "", "", 0.0, overridden=keys)
    return daemon


def test_what_the_daemons_command_line_sets_is_no_change(path: Path, tmp_path: Path) -> None:
    with served(tmp_path / "a.sock", overriding("reservedResources: {cpu: 2}", "reservedResources.cpu")):
        report = check(path, tmp_path / "a.sock", machine="{cores: 8}")
    assert report.changes == (OptionChange("adopt", "pin", "leave"),)
    assert report.overridden == (OptionChange("reservedResources.cpu", "2", "750m"),)
    said = "overridden by the command line of the running daemon:\n  reservedResources.cpu  2 stays; the file has 750m"
    assert said in render_report(report)


def test_what_the_file_leaves_to_the_command_line_is_not_told(path: Path, tmp_path: Path) -> None:
    with served(tmp_path / "a.sock", overriding(f"{TEXT}http: off\nstateDir: /s", "http")):
        report = check(path, tmp_path / "a.sock")
    assert ([change.key for change in report.changes], report.overridden) == (["stateDir"], ())
    assert "not in the file, hence the default:\n  stateDir" in render_report(report)


def test_where_all_that_differs_is_overridden_it_is_the_same(path: Path, tmp_path: Path) -> None:
    with served(tmp_path / "a.sock", overriding("reservedResources: {cpu: 750m}", "adopt")):
        text = render_report(check(path, tmp_path / "a.sock"))
    assert "the same as the running daemon\noverridden by the command line" in text


def test_the_machine_is_that_of_the_command_line_whatever_the_file_says(path: Path, tmp_path: Path) -> None:
    root = write_tree(tmp_path / "tree", describe({"cores": 16}))
    path.write_text("sysfsRoot: /nope")
    with served(tmp_path / "a.sock", overriding(f"sysfsRoot: {root}", "sysfsRoot")):
        assert check(path, tmp_path / "a.sock").available == "0-15"


def test_no_difference_is_said(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path / "a.sock", FixedDaemon(parse_config(TEXT))):
        assert run_command(["check-config", str(path), "--admin", f"{tmp_path}/a.sock"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], lines[-1]) == (f"{path}: valid", "the same as the running daemon")


@pytest.mark.parametrize(
    ("text", "problem"),
    [("adopt: pin\nadpot: x", ":2: adpot: unknown option; did you mean adopt?"), ("imageListen: /a", "needs imageEnd")],
)
def test_a_configuration_that_is_not_valid_is_a_clear_no(
    path: Path, text: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_text(text)
    assert run_command(["check-config", str(path)]) == 1
    assert problem in capsys.readouterr().out


def test_json_names_line_and_key(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text("log: {level: loud}")
    assert run_command(["check-config", str(path), "-o", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["valid"], report["line"], report["key"]) == (False, 1, "log.level")


def test_an_option_that_one_side_does_not_know_counts_as_not_set() -> None:
    new = config_json(parse_config("adopt: leave"))
    assert OptionChange("adopt", "none", "leave") in compare({}, new, frozenset({"adopt"}))


def test_what_was_left_out_is_shown(path: Path, tmp_path: Path) -> None:
    path.write_text("policy: {Active: none}\nrdt: {}")
    assert "warning: rdt:" in render_report(check(path, tmp_path / "a.sock"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "availableResources: {cpu: 'cpuset:0'}\nreservedResources: {cpu: 'cpuset:1'}",
            "CPU 1 is not available; avail",
        ),
        ("reservedResources: {cpu: 100}", "reservedResources.cpu: cannot reserve 100: "),
        ("availableResources: {cpu: 'cpuset:999'}", "availableResources.cpu: CPU 999 does not exist; online are 0"),
        ("availableResources: {cpu: /nope}", "availableResources.cpu: /nope is no cgroup with a cpuset: name one"),
        ("sysfsRoot: /nope", "machine '/nope': no such directory; --sysfs-root takes"),
    ],
)
def test_what_run_refuses_on_this_machine_is_not_valid(
    path: Path, text: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_text(f"{text}\nstateDir: {path.parent}\nlisten: unix://{path.parent}/l.sock\n")
    said = [(run_command([*words, str(path)]), "".join(capsys.readouterr())) for words in (["check-config"], RUN)]
    assert [(status, problem in text) for status, text in said] == [(1, True), (1, True)]


def test_the_cpus_are_those_of_the_machine_that_is_named(path: Path, tmp_path: Path) -> None:
    path.write_text("reservedResources: {cpu: 3}\navailableResources: {cpu: exclude-cpuset:7}")
    report = check(path, tmp_path / "a.sock", machine="{cores: 8}")
    assert (report.valid, report.available, report.reserved) == (True, "0-6", "0-2")
    assert not check(path, tmp_path / "a.sock", machine="{cores: 2}").valid


def test_the_cpus_are_those_of_the_running_daemons_machine(path: Path, tmp_path: Path) -> None:
    root = write_tree(tmp_path / "tree", describe({"cores": 16}))
    path.write_text("reservedResources: {cpu: 12}")
    with served(tmp_path / "a.sock", FixedDaemon(parse_config(f"sysfsRoot: {root}"))):
        report = check(path, tmp_path / "a.sock")
    assert (report.valid, report.machine, report.reserved) == (True, str(root), "0-11")


@pytest.mark.parametrize(
    ("reserved", "warnings", "hints"), [("", 1, 2), ("0", 0, 2), ("0-1", 0, 3)], ids=["too little", "as much", "more"]
)
def test_the_kubelets_reservation_is_compared(
    path: Path, tmp_path: Path, reserved: str, warnings: int, hints: int
) -> None:
    """Two hints are about annotations and about what runs."""
    root = write_tree(tmp_path / "tree", describe({"cores": 16}))
    path.write_text(f"sysfsRoot: {root}\nkubeletRoot: {tmp_path}\nreservedResources: {{cpu: 'cpuset:0'}}")
    (tmp_path / "config.yaml").write_text(f'reservedSystemCPUs: "{reserved}"')
    report = check(path, tmp_path / "a.sock")
    assert (len(report.warnings), len(report.hints)) == (warnings, hints)
    said = (*report.warnings, *report.hints[1:-1])
    assert all("pods may request" in text and 'set reservedSystemCPUs: "0"' in text for text in said)


def test_a_no_names_the_machine_once(path: Path, tmp_path: Path) -> None:
    path.write_text("reservedResources: {cpu: 3}")
    spec = "{cores: 2}"
    assert render_report(check(path, tmp_path / "a.sock", machine=spec)).endswith(f" (on the machine {spec})")
    assert render_report(check(path, tmp_path / "a.sock", machine="/nope")).count("/nope") == 1


def test_what_run_would_warn_of_is_shown(path: Path, tmp_path: Path) -> None:
    path.write_text("adopt: pin")
    report = check(path, tmp_path / "a.sock", machine="{cores: 2}")
    assert "warning: reservedResources.cpu is not set" in render_report(report)


def test_a_cgroup_of_another_machine_cannot_be_checked_and_is_warned_of(path: Path, tmp_path: Path) -> None:
    path.write_text("availableResources: {cpu: /kubepods}")
    report = check(path, tmp_path / "a.sock", machine="{cores: 2}")
    assert report.valid
    assert "/kubepods is a cgroup of the node: not checked" in report.warnings[0]


def test_the_reference_documents_every_key_of_the_answer() -> None:
    page = Path(__file__).parents[4] / "docs" / "reference" / "check-config.md"
    cells = re.findall(r"^\| (`.*?`) \|", page.read_text(), re.MULTILINE)
    keys = [f.name for f in (*fields(ConfigReport), *fields(OptionChange))]
    assert sorted(re.findall(r"`(\w+)`", " ".join(cells))) == sorted(keys)


PLAN = PlanView(
    "", ("http",), (PinningChange("default", "web", "c0", CpuSet.parse("1"), None, CpuSet.parse("0-1"), None),)
)


@pytest.mark.parametrize(
    ("plan", "status", "said"),
    [
        (PLAN, 0, "the running daemon would apply it, and update:\n  default/web/c0: from CPUs 0-1 to CPU 1"),
        (PlanView(""), 0, "would apply it, and update no container"),
        (PlanView("", is_kept=True), 0, "the running daemon has started with the last valid configuration"),
        (PlanView("no room for web/c0"), 1, "the running daemon would NOT apply it now: no room for web/c0"),
    ],
)
def test_what_the_running_daemon_would_do_is_asked_of_it(
    path: Path, tmp_path: Path, plan: PlanView, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, str]] = []

    async def answer(text: str, group: str) -> PlanView:
        asked.append((text, group))
        return plan

    path.with_name("node-group").write_text("rt")
    with served(tmp_path / "a.sock", FixedDaemon(), plan=answer):
        assert run_command(["check-config", str(path), "--admin", f"{tmp_path}/a.sock"]) == status
    assert asked == [(TEXT, "rt")]
    assert said in capsys.readouterr().out


def test_running_system_containers_that_ask_for_more_than_the_file_reserves_are_a_warning(
    path: Path, tmp_path: Path
) -> None:
    async def answer(text: str, group: str) -> PlanView:
        return PlanView("")

    class Busy(FixedDaemon):
        def status_steps(self) -> Steps[StatusView]:
            yield
            return replace(status_view(), containers=(container("c", "reserved", "0", reserved_mcpu=9000),))

    with served(tmp_path / "a.sock", Busy(), plan=answer):
        report = check(path, tmp_path / "a.sock")
    assert [w for w in report.warnings if "containers ask for 9000m" in w]
    with served(tmp_path / "b.sock", FixedDaemon(), plan=answer):
        assert not [w for w in check(path, tmp_path / "b.sock").warnings if "ask for" in w]


@pytest.mark.parametrize(("machine", "daemon"), [("", False), ("{cores: 8}", False), ("{cores: 8}", True)])
def test_what_system_containers_ask_for_is_said_to_be_unknown_where_no_daemon_is_asked(
    path: Path, tmp_path: Path, machine: str, daemon: bool
) -> None:
    with served(tmp_path / "a.sock", FixedDaemon()):
        report = check(path, tmp_path / ("a.sock" if daemon else "b.sock"), machine=machine)
    why = "they run on another machine than this" if daemon else "no daemon of this node was asked"
    assert [hint for hint in report.hints if why in hint]
    hint = next(hint for hint in report.hints if "are not known" in hint)
    assert "if they are more than the 1000m of the reserved CPUs 0," in hint
    for text in ("adopt: leave", f"{TEXT}policy: {{Active: none}}"):
        path.write_text(text)
        assert not [h for h in check(path, tmp_path / "b.sock", machine=machine).hints if "not known" in h]


def test_a_large_file_is_compared_as_any_other(path: Path, tmp_path: Path) -> None:
    path.write_text(TEXT + "".join(f"# {random.Random(line).randbytes(40).hex()}\n" for line in range(1200)))
    asked: list[str] = []

    async def answer(text: str, group: str) -> PlanView:
        asked.append(text)
        return PlanView("")

    with served(tmp_path / "a.sock", FixedDaemon(), plan=answer):
        report = check(path, tmp_path / "a.sock")
    assert (report.is_planned, asked) == (True, [path.read_text()])
    assert len(asked[0]) > 97_000


def test_a_daemon_that_cannot_say_what_it_would_do_is_named(path: Path, tmp_path: Path) -> None:
    with served(tmp_path / "a.sock"):  # as an older one, which has no such route
        report = check(path, tmp_path / "a.sock")
    assert (report.valid, report.is_planned, report.against) == (True, False, "daemon")
    assert "does not report what it would do" in report.warnings[0]
    assert "answered 405: POST is not offered here" in report.warnings[0]


def test_what_needs_a_restart_is_marked(path: Path, tmp_path: Path) -> None:
    path.write_text("stateDir: /elsewhere\nadopt: leave")
    text = render_report(check(path, tmp_path / "a.sock", machine="{cores: 2}"))
    assert "stateDir  /var/lib/cri-proxy -> /elsewhere  (needs a restart)" in text
    assert "adopt     pin -> leave\n" in f"{text}\n"


@pytest.mark.parametrize("text", ["adpot: pin", "availableResources: {cpu: 'cpuset:9999'}"])
def test_where_a_start_would_go_on_with_what_was_in_force_that_is_said(path: Path, tmp_path: Path, text: str) -> None:
    KNOWN_GOOD.save(tmp_path / "state", KnownGood(parse_config(TEXT), path, path, "", "ab" * 32, 1_700_000_000.0))
    path.write_text(text)
    with served(tmp_path / "a.sock", FixedDaemon(parse_config(f"stateDir: {tmp_path}/state"))):
        report = check(path, tmp_path / "a.sock")
    assert not report.valid
    said = f"would use {path} as it was in force since 2023-11-14T22:13:20Z (sha256 abababababab)"
    assert said in render_report(report)


def test_what_was_kept_and_cannot_be_used_is_a_warning(path: Path, tmp_path: Path) -> None:
    (tmp_path / "config-in-force.json").write_text("{")
    path.write_text("adpot: pin")
    with served(tmp_path / "a.sock", FixedDaemon(parse_config(f"stateDir: {tmp_path}"))):
        report = check(path, tmp_path / "a.sock")
    assert report.instead == ""
    assert "the last valid configuration cannot be used" in report.warnings[-1]


@pytest.mark.parametrize(
    ("text", "is_hinted"),
    [
        ("adopt: leave", True),
        ("policy: none", False),
        ("annotationDomains: []", False),
        ("restrictedAnnotations: [{keys: [cpu.preserve]}]", False),
    ],
)
def test_a_node_where_nothing_is_restricted_gets_a_hint(path: Path, tmp_path: Path, text: str, is_hinted: bool) -> None:
    path.write_text(text)
    printed = render_report(check(path, tmp_path / "a.sock", machine="{cores: 2}"))
    assert ("\nhint: restrictedAnnotations is not set" in printed) is is_hinted


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a.com/gpu/gpu0-3: {10: [cpu/cpu0]}\n", ""),
        ("a.com/gpu/gpu0:\n  - 10: []\n  - 11: [cpu/cpu0]\n", ":2: 10: no targets stand under this cost"),
        ("", ": is empty: it is being written, or the disk is full; write {} if it lists nothing"),
    ],
)
def test_the_cost_files_of_the_node_are_checked_with_the_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    costs = tmp_path / "costs.d"
    costs.mkdir(mode=0o755)
    (costs / "gpu.yaml").write_text(text)
    (costs / "gpu.yaml").chmod(0o644)
    (tmp_path / "c.yaml").write_text(f"{TEXT}costs: {{dir: {costs}}}\n")
    report = check(tmp_path / "c.yaml", tmp_path / "a.sock")
    assert (report.valid, report.is_good) == (True, not problem)
    if problem:
        assert report.cost_problems == (f"{costs}/gpu.yaml{problem}",)
        assert f"file of devices not usable: {costs}/gpu.yaml{problem}" in render_report(report)
    else:
        assert f"cost files: {costs}, 1 file: a.com/gpu 4" in render_report(report)
    words = ["check-config", str(tmp_path / "c.yaml"), "--admin", str(tmp_path / "a.sock")]
    assert run_command(words) == (1 if problem else 0)
    assert capsys.readouterr().err == ""


def test_the_cost_files_of_this_node_say_nothing_about_another_machine(path: Path, tmp_path: Path) -> None:
    (tmp_path / "costs.d").mkdir(mode=0o777)
    (tmp_path / "costs.d").chmod(0o777)
    path.write_text(f"{TEXT}costs: {{dir: {tmp_path}/costs.d}}\n")
    assert "others may write to it" in check(path, tmp_path / "a.sock").cost_problems[0]
    assert check(path, tmp_path / "a.sock", machine="{packages: 1, cores: 4}").cost_problems == ()


def test_a_certificate_or_token_of_this_node_that_cannot_be_used_is_a_warning(path: Path, tmp_path: Path) -> None:
    made, tokens = self_signed(tmp_path), tmp_path / "tokens"
    tokens.write_text("short\n")
    path.write_text(f"{TEXT}httpTLS: {{certificate: {made.certificate}, key: {made.key}, tokenFile: {tokens}}}\n")
    (told,) = (each for each in check(path, tmp_path / "a.sock").warnings if each.startswith("httpTLS: "))
    assert f"{tokens}: token 1: expected at least 16" in told and "is not opened" in told
    assert not any("httpTLS" in each for each in check(path, tmp_path / "a.sock", machine="{cores: 4}").warnings)
    tokens.write_text("a" * 32)
    assert not any("httpTLS" in each for each in check(path, tmp_path / "a.sock").warnings)
    made.key.unlink()
    assert any(f"httpTLS: {made.key}: No such file" in each for each in check(path, tmp_path / "a.sock").warnings)


def test_devices_that_win_by_silence_are_a_warning(path: Path, tmp_path: Path) -> None:
    (tmp_path / "costs.d").mkdir(mode=0o755)
    (tmp_path / "costs.d" / "a.yaml").write_text("a.com/x/x0: {1: [cpu/cpu0]}\na.com/x/x1:\n")
    (tmp_path / "costs.d" / "a.yaml").chmod(0o644)
    path.write_text(f"{TEXT}costs: {{dir: {tmp_path}/costs.d}}\n")
    report = check(path, tmp_path / "a.sock")
    assert any(warning.startswith("cost files: a.com/x/x1 says nothing about costs") for warning in report.warnings)
