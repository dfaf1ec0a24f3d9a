import pytest

from cri_proxy.config.cpus import AllBut, CgroupCpus, CpuList, CpuQuantity, parse_available, parse_reserved
from sysfs.cpuset import CpuSet


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("cpuset:0-3,8", CpuList(CpuSet.parse("0-3,8"))),
        ("exclude-cpuset:0", AllBut(CpuSet.parse("0"))),
        ("/kubepods.slice", CgroupCpus("/kubepods.slice")),
        ("system/besteffort", CgroupCpus("system/besteffort")),
    ],
)
def test_available_cpus_come_in_three_forms(text: str, value: object) -> None:
    assert parse_available(text) == value
    assert str(value) == text


@pytest.mark.parametrize("text", ["0-3", "0,4", "0-1,8"])
def test_a_list_may_stand_alone_as_in_cri_resource_manager_where_it_cannot_be_a_quantity(text: str) -> None:
    assert parse_available(text) == parse_reserved(text) == CpuList(CpuSet.parse(text))


@pytest.mark.parametrize(
    "text", ["", "4", "0-", "1,,2", "cpuset:", "cpuset:3-1", "exclude-cpuset:x", "../../etc/x", "kubepods"]
)
def test_available_garbage_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|empty"):
        parse_available(text)


@pytest.mark.parametrize(
    ("text", "mcpu"),
    [("750m", 750), ("2", 2000), ("0", 0), ("0.5", 500), (".5", 500), ("1.0001", 1001), ("1500000u", 1500), ("1n", 1)],
)
def test_quantities_are_those_of_kubernetes_rounded_up(text: str, mcpu: int) -> None:
    assert parse_reserved(text) == CpuQuantity(mcpu)


@pytest.mark.parametrize("text", ["", "-1", "0-x", "2Gi", "m", "0x2", "1 000", "inf", "9999999999", "٣"])
def test_quantity_garbage_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected a quantity|more than any machine"):
        parse_reserved(text)


def test_a_reservation_may_name_its_cpus() -> None:
    assert parse_reserved("cpuset:0,4") == CpuList(CpuSet.parse("0,4"))


def test_a_reservation_may_name_the_cpus_that_are_not_in_it() -> None:
    assert parse_reserved("exclude-cpuset:2-7") == AllBut(CpuSet.parse("2-7"))


@pytest.mark.parametrize(("mcpu", "text"), [(750, "750m"), (2000, "2"), (0, "0")])
def test_a_quantity_is_shown_as_it_would_be_written(mcpu: int, text: str) -> None:
    assert str(CpuQuantity(mcpu)) == text
