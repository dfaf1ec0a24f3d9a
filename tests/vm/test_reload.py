"""``systemctl daemon-reload`` with a runc that reverses the bytes of the masks which it gives to systemd."""

import pytest

from cri_proxy.runtime.runc import as_systemd_reads, reverses_masks
from tests.vm.report import Report

pytestmark = pytest.mark.timeout(1500)
VICTIM, NEIGHBOUR = "victim/c0", "neighbour/c0"


@pytest.fixture
def report(under_systemd: Report) -> Report:
    _, _, version, *_ = under_systemd.facts["reload: runc"].split()
    if not reverses_masks(version):
        pytest.skip(f"this distribution's runc is mended: {version}")
    return under_systemd


def test_systemd_reads_the_reversed_mask(report: Report) -> None:
    before, moved = (report.steps[f"reload: {step}"][VICTIM] for step in ("before", "moved by systemd"))
    assert moved.cpus == moved.written == as_systemd_reads(before.cpus) != before.cpus
    assert not moved.cpus.isdisjoint(report.steps["reload: before"][NEIGHBOUR].cpus)


def test_the_operator_is_warned_before_the_first_reload(report: Report) -> None:
    (warning,) = [text for text in report.facts["reload: warnings"] if "reverses the bytes" in text]
    assert "default/victim/c0 from CPUs 8-9 to 0-1" in warning
    assert "runc 1.1.6 or later" in warning


@pytest.mark.parametrize("step", ["put back", "put back again"])
def test_the_container_is_put_back_without_a_regular_look(report: Report, step: str) -> None:
    assert report.facts[f"reload: is {step}"]
    assert report.steps[f"reload: {step}"][VICTIM].cpus == report.steps["reload: before"][VICTIM].cpus


def test_no_reload_counts_as_another_manager(report: Report) -> None:
    assert report.events("drifted", VICTIM) == report.events("left_to_another", VICTIM) == []
    (event,) = [line for line in report.lines() if line["event"] == "runc_masks"]
    assert "runc 1.1.6 or later" in event["reason"]


def test_a_reload_after_the_reset_narrows_nothing(report: Report) -> None:
    assert {c["outcome"] for c in report.facts["reset: report"]["containers"]} == {"widened"}
    widened, reloaded = report.steps["reset: widened"], report.steps["reset: reloaded"]
    assert {str(seen.cpus) for seen in widened.values()} == {"0-3,8-10"}
    assert reloaded == widened
