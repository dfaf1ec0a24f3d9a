"""The report of a reset on a terminal."""

from cri_proxy.cli.reset import render_reset
from cri_proxy.node.reset_report import Outcome, ResetContainer, ResetReport
from policies.base import Pinning
from sysfs.cpuset import CpuSet, NodeSet


def pinning(cpus: str, mems: str) -> Pinning:
    return Pinning(CpuSet.parse(cpus) or None, NodeSet.parse(mems) or None)


WIDE = pinning("0-7", "0-1")


def container(name: str, outcome: Outcome, before: Pinning, *, problem: str = "") -> ResetContainer:
    return ResetContainer("shop", "web", name, f"id-{name}", outcome, before, WIDE, problem)


def rendered(*containers: ResetContainer, dropped: int = 0, is_dry: bool = False) -> str:
    return render_reset(ResetReport(WIDE, containers, dropped, is_dry))


def test_each_container_has_a_line_with_before_and_after() -> None:
    text = rendered(container("c0", "widened", pinning("2-3", "0")), container("c1", "wide already", WIDE), dropped=2)
    assert text.splitlines() == [
        "container    CPUs        memory nodes",
        "shop/web/c0  2-3 -> 0-7  0 -> 0-1      widened",
        "shop/web/c1  0-7         0-1           wide already",
        "",
        "1 wide already, 1 widened; 2 saved grants dropped.",
    ]


def test_a_refusal_has_its_reason_and_the_way_on() -> None:
    text = rendered(container("c0", "refused", pinning("2", "0"), problem="busy"), dropped=1)
    assert "shop/web/c0: busy" in text
    assert text.endswith("1 refused; 1 saved grant dropped; run it again for those that were refused.")


def test_a_set_that_nobody_recorded_is_any() -> None:
    assert "any -> 0-7" in rendered(container("c0", "widened", Pinning(None, None)))


def test_a_dry_run_speaks_of_what_would_be() -> None:
    assert rendered(dropped=3, is_dry=True) == "no container runs; 3 saved grants would be dropped."
