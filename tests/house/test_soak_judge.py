"""The judge of the soak: what grows is seen, what breathes is not."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random

import pytest

from cri_proxy.node.status.model import ContainerView, StatusView
from sysfs.cpuset import CpuSet, NodeSet
from tests.soak.judge import LEAST_SAMPLES, MEBIBYTE, SERIES, Sample, Series, judge
from tests.soak.rest import problems
from tests.soak.soak import MIX, bad_lines, script
from tests.testbed.kernel import Allowed

LIVES = 100  # in a phase


def samples(count: int = 12, /, **values: Callable[[int], float]) -> list[Sample]:
    """Samples of ``count`` phases; a series is what its function says of the phase, 'sockets' is always there."""
    series = {"sockets": lambda phase: 30.0, **{name.replace("_", " "): of for name, of in values.items()}}
    return [
        Sample(LIVES * (phase + 1), 10 * LIVES, 10.0 * phase, {name: of(phase) for name, of in series.items()})
        for phase in range(count)
    ]


def found(**values: Callable[[int], float]) -> list[str]:
    return [finding.series.name for finding in judge(samples(**values)) if finding.is_leak]


def breath(seed: int, size: float) -> Callable[[int], float]:
    """Up and down by chance, by up to ``size``."""
    return lambda phase: size * Random(seed + phase).random()


def test_a_descriptor_in_a_third_of_the_run_is_a_leak() -> None:
    assert found(sockets=lambda phase: 30 + phase // 4) == ["sockets"]


def test_a_task_for_each_life_is_a_leak() -> None:
    assert found(tasks=lambda phase: 20 + LIVES * phase) == ["tasks"]


def test_a_grant_that_is_kept_is_a_leak() -> None:
    assert found(grants=lambda phase: 117 + (phase > 7)) == ["grants"]


def test_what_comes_and_goes_at_rest_is_none() -> None:
    assert found(sockets=lambda phase: 30 + phase % 3, files=lambda phase: 8 + (phase % 2)) == []


@pytest.mark.parametrize("count", [9, 12, 60])
@pytest.mark.parametrize("at", [3, 4, 5])
def test_a_dip_is_none(count: int, at: int) -> None:
    """A stream that is opened anew at the moment of the look."""
    dipping = samples(count, sockets=lambda phase: 30 - (phase == at * count // 9))
    assert [finding for finding in judge(dipping) if finding.is_leak] == []


def test_what_fills_in_the_first_third_is_none() -> None:
    assert (
        found(anonymous_bytes=lambda phase: min(phase, 3) * 10 * MEBIBYTE, blocks=lambda phase: min(phase, 3) * 1e5)
        == []
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_breath_within_the_allowance_is_none(seed: int) -> None:
    assert found(anonymous_bytes=breath(seed, MEBIBYTE), blocks=breath(seed, 3000)) == []


@pytest.mark.parametrize("seed", range(20))
def test_growth_is_seen_through_the_breath(seed: int) -> None:
    """Twice what is allowed over the judged phases, under a breath of half of it."""
    of = {series.name: series.allowance for series in SERIES if series.is_amount}
    steps = {name: 2 * allowance / 8 for name, allowance in of.items()}

    def grows(name: str) -> Callable[[int], float]:
        return lambda phase: steps[name] * phase + breath(seed, of[name] / 2)(phase)

    assert found(anonymous_bytes=grows("anonymous bytes"), blocks=grows("blocks")) == ["anonymous bytes", "blocks"]


@pytest.mark.parametrize("series", SERIES, ids=[series.name for series in SERIES])
def test_every_series_says_from_which_growth_on_a_leak_is_seen(series: Series) -> None:
    flat = judge(samples(**{series.name: lambda phase: 0.0}))
    (seen_from,) = (f.seen_from for f in flat if f.series.name == series.name)
    assert found(**{series.name: lambda phase: 1.01 * seen_from * LIVES * phase}) == [series.name]
    assert not series.is_amount or found(**{series.name: lambda phase: 0.99 * seen_from * LIVES * phase}) == []


def test_a_leak_of_a_kilobyte_a_life_is_seen_in_a_soak_of_half_an_hour() -> None:
    """Of 6000 lives, as half an hour has on two cores that eight others use."""
    (finding,) = (f for f in judge(samples(60, anonymous_bytes=breath(1, MEBIBYTE))) if f.series.name != "sockets")
    assert finding.seen_from < 1024
    grown = samples(60, anonymous_bytes=lambda phase: 1024 * LIVES * phase + breath(1, MEBIBYTE)(phase))
    assert [f.series.name for f in judge(grown) if f.is_leak] == ["anonymous bytes"]


def test_too_few_samples_are_no_verdict() -> None:
    with pytest.raises(ValueError, match="run for longer"):
        judge(samples(LEAST_SAMPLES - 1))


@pytest.mark.parametrize("mix", MIX.values(), ids=list(MIX))
def test_every_phase_is_the_same_work_in_another_order(mix: dict[str, int]) -> None:
    one, other = script(mix, Random(1)), script(mix, Random(2))
    assert one != other
    assert sorted(one) == sorted(other)
    assert len(one) == sum(mix.values())


# What the daemon logs.

AWAY = [(1000.0, 1010.0)]


def logged(event: str, at_seconds: float, *, level: str = "error") -> str:
    timestamp = datetime.fromtimestamp(at_seconds, UTC).isoformat().replace("+00:00", "Z")
    return json.dumps({"timestamp": timestamp, "level": level, "event": event}) + "\n"


def test_an_update_that_fails_while_the_runtime_is_away_is_nothing_bad() -> None:
    assert bad_lines(logged("update_failed", 1005.0), AWAY) == []


@pytest.mark.parametrize("at_seconds", [999.0, 1011.0])
def test_an_update_that_fails_otherwise_is_bad(at_seconds: float) -> None:
    assert len(bad_lines(logged("update_failed", at_seconds), AWAY)) == 1


def test_another_error_is_bad_at_any_time_and_a_warning_never() -> None:
    log = logged("violation", 1005.0) + logged("drifted", 1005.0, level="warning") + "Traceback\n"
    assert [line[:2] for line in bad_lines(log, AWAY)] == ['{"', "Tr"]


def test_a_line_that_is_being_written_is_not_looked_at() -> None:
    whole = logged("violation", 1005.0)
    assert bad_lines(whole + whole[:20], AWAY) == bad_lines(whole, AWAY) == [whole.strip()]


# At rest.

MEMS = NodeSet.parse("0")


def view(name: str, cpus: str, *, own: str = "", state: str = "running", known: str = "") -> ContainerView:
    """A container that should be on these CPUs."""
    wanted, acknowledged = CpuSet.parse(cpus), CpuSet.parse(known or cpus)
    return ContainerView(
        *("default", name, "c", f"uid-{name}", name, "guaranteed", state, "exclusive", "root"),
        cpus=wanted,
        mems=MEMS,
        exclusive=CpuSet.parse(own),
        acknowledged_cpus=acknowledged,
        acknowledged_mems=MEMS,
    )


def told(*views: ContainerView, **kernel: str) -> list[str]:
    status = StatusView("node", "topology-aware", is_ready=True, pools=(), containers=views)
    enforced = {name: Allowed(CpuSet.parse(cpus), MEMS) for name, cpus in kernel.items()}
    return list(problems(status, enforced, {"a", "b"}))


def test_a_node_at_rest_has_no_problems() -> None:
    assert told(view("a", "1", own="1"), view("b", "0,2-3"), a="1", b="0,2-3") == []


def test_a_grant_without_a_container_is_a_problem() -> None:
    left = view("left", "3", own="3")
    assert told(view("a", "1", own="1"), view("b", "2"), left, a="1", b="2") == [
        "1 containers hold a grant and are gone, 0 hold none"
    ]


def test_a_container_without_a_grant_is_a_problem() -> None:
    assert told(view("a", "1"), a="1", b="2") == ["0 containers hold a grant and are gone, 1 hold none"]


def test_a_cpu_of_two_owners_is_a_problem() -> None:
    texts = told(view("a", "1", own="1"), view("b", "1-2", own="1-2"), a="1", b="1-2")
    assert "CPUs 1 are owned twice" in texts


def test_a_cpuset_that_is_not_the_kernels_is_a_problem() -> None:
    assert told(view("a", "1", own="1"), view("b", "2-3"), a="1", b="2") == [
        "default/b/c should be on CPUs 2-3 and runs on 2"
    ]


def test_somebody_on_the_cpus_of_another_is_a_problem() -> None:
    assert "b runs on CPUs 1 that others own" in told(view("a", "1", own="1"), view("b", "1-2"), a="1", b="1-2")


def test_an_update_that_waits_and_a_state_in_between_are_problems() -> None:
    assert told(view("a", "1", state="created"), view("b", "2", known="3"), a="1", b="2") == [
        "default/a/c is created",
        "default/b/c waits for an update",
    ]
