import pytest

from cri_proxy.cli.render.amounts import about_bytes_text, cpu_text, ids_text, moment_text
from sysfs.cpuset import CpuSet, NodeSet


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (500, "500"), (1 << 30, "1Gi"), (1571958031, "1.46Gi"), (1023 << 20, "1023Mi"), (-(2 << 30), "-2Gi")],
)
def test_three_digits_say_enough_where_the_last_byte_does_not_matter(count: int, text: str) -> None:
    assert about_bytes_text(count) == text


@pytest.mark.parametrize(("mcpu", "text"), [(0, "0"), (2000, "2"), (2500, "2.5"), (1, "0.001")])
def test_cpu_time_is_shown_in_cpus(mcpu: int, text: str) -> None:
    assert cpu_text(mcpu) == text


def test_sets_carry_their_name() -> None:
    assert ids_text("CPU", CpuSet.parse("2-3")) == "CPUs 2-3"
    assert ids_text("node", NodeSet()) == "no node"
    assert ids_text("CPU", None) == "any CPU"


def test_moments_are_utc() -> None:
    assert moment_text(0.0) == "1970-01-01 00:00:00"
