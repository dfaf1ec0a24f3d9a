import pytest

from cri_proxy.runtime.runc import as_systemd_reads, is_misread, keeps_affinity, reverses_masks
from sysfs.cpuset import CpuSet, NodeSet


@pytest.mark.parametrize(
    ("version", "is_wrong"),
    [
        *(("1.0.3", True), ("1.1.5+ds1", True), ("v1.1.5", True), ("1.1.0-rc.1", True)),
        *(("1.1.6", False), ("1.1.12", False), ("1.2.8", False), ("2.0.0", False), ("10.0.0", False)),
        *(("", False), ("unknown", False), ("1.1", False), ("x1.1.5", False)),
    ],
)
def test_masks_are_reversed_before_1_1_6_only(version: str, is_wrong: bool) -> None:
    assert reverses_masks(version) == is_wrong


@pytest.mark.parametrize(
    ("written", "misread"),
    [("8-9", "0-1"), ("14-15", "6-7"), ("0-11", "0-3,8-15"), ("16", "0"), ("8,16", "0,8"), ("0,23", "7,16"), ("", "")],
)
def test_the_bytes_of_the_mask_are_reversed(written: str, misread: str) -> None:
    assert as_systemd_reads(CpuSet.parse(written)) == CpuSet.parse(misread)
    assert as_systemd_reads(NodeSet.parse(written)) == NodeSet.parse(misread)


def test_a_set_that_is_read_as_it_is_was_not_misread() -> None:
    for text in ("0-7", "3", "0-15", "4,12"):
        assert not is_misread(CpuSet.parse(text), CpuSet.parse(text))


def test_offline_cpus_do_not_count_as_long_as_something_is_left() -> None:
    written, online = CpuSet.parse("8-9"), CpuSet.parse("1-15")
    assert is_misread(CpuSet.parse("1"), written, online)
    assert not is_misread(CpuSet.parse("1"), written)
    assert not is_misread(CpuSet.parse("16"), written, CpuSet.parse("2-15"))
    assert is_misread(CpuSet.parse("0-1"), written, CpuSet.parse("2-15"))


def test_what_was_written_is_not_misread_where_the_difference_is_offline() -> None:
    assert not is_misread(CpuSet.parse("0,8"), CpuSet.parse("0,9"), CpuSet.parse("0-7"))


@pytest.mark.parametrize(
    ("version", "keeps"),
    [
        ("", True),
        ("1.1.15", True),
        ("1.2.6", True),
        ("1.2.7", False),
        ("1.3.0", True),
        ("1.3.1", False),
        ("1.4.0", False),
    ],
)
def test_runc_resets_an_affinity_since_1_2_7_and_1_3_1(version: str, keeps: bool) -> None:
    assert keeps_affinity(version) == keeps
