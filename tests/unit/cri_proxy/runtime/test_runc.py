import pytest

from cri_proxy.runtime.runc import as_systemd_reads, is_misread, reverses_masks, runc_version
from sysfs.cpuset import CpuSet, NodeSet


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+deb12u1\nspec: 1.0.2-dev\n", (1, 1, 5)),
        ("runc version 1.2.8\ncommit: v1.2.8-0-geeb7e602\n", (1, 2, 8)),
        ("WARNING: something\nrunc version v1.3.0-rc.1\n", (1, 3, 0)),
        ("crun version 1.8.1\n", None),
        ("runc version unknown\n", None),
        ("", None),
    ],
)
def test_the_version_is_read_from_what_runc_prints(output: str, version: tuple[int, int, int] | None) -> None:
    assert runc_version(output) == version


def test_masks_are_reversed_before_1_1_6_only() -> None:
    versions = [(1, 0, 3), (1, 1, 5), (1, 1, 6), (1, 1, 12), (1, 2, 0), (2, 0, 0)]
    assert [reverses_masks(version) for version in versions] == [True, True, False, False, False, False]


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
