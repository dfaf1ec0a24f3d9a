import pytest

from sysfs.cpuset import CpuSet, NodeSet
from tests.testbed.errors import TryoutError
from tests.testbed.kernel import CAP_SYS_RESOURCE, Allowed, has_capability, read_allowed

STATUS = "Name:\tcat\nCpus_allowed:\tff\nCpus_allowed_list:\t0-2,8\nMems_allowed_list:\t0,2\n"


def test_the_lists_are_read() -> None:
    assert read_allowed(STATUS) == Allowed(CpuSet.parse("0-2,8"), NodeSet.parse("0,2"))


def test_a_text_without_the_lists_is_an_error_that_shows_it() -> None:
    with pytest.raises(TryoutError, match=r"Cpus_allowed_list.*No such file"):
        read_allowed("cat: No such file")


def test_garbage_in_a_list_is_an_error() -> None:
    with pytest.raises(TryoutError, match="0-x"):
        read_allowed("Cpus_allowed_list:\t0-x\nMems_allowed_list:\t0\n")


@pytest.mark.parametrize(("mask", "held"), [("000001ffffffffff", True), ("000001fffeffffff", False)])
def test_a_capability_is_a_bit_of_the_effective_mask(mask: str, held: bool) -> None:
    assert has_capability(CAP_SYS_RESOURCE, f"CapEff:\t{mask}\n") is held
