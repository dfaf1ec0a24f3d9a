"""The sets that come of runc's reversed masks, held against the two programs' own ways of writing and reading them."""

from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.runtime.runc import as_systemd_reads, is_misread
from sysfs.cpuset import CpuSet, NodeSet

CPUS = st.sets(st.integers(0, 200), min_size=1)


def sent_by_runc(cpus: set[int]) -> bytes:
    """The whole number, the most significant byte first and none of them zero in front."""
    digits = f"{sum(1 << cpu for cpu in cpus):x}"
    return bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}")


def read_by_systemd(data: bytes) -> set[int]:
    """Bit b of byte i is CPU 8 * i + b."""
    return {8 * i + bit for i, byte in enumerate(data) for bit in range(8) if byte >> bit & 1}


@given(CPUS)
def test_the_set_is_what_systemd_makes_of_the_bytes_that_runc_sends(cpus: set[int]) -> None:
    read = read_by_systemd(sent_by_runc(cpus))
    assert set(as_systemd_reads(CpuSet.of(cpus))) == read
    assert set(as_systemd_reads(NodeSet.of(cpus))) == read
    assert is_misread(CpuSet.of(read), CpuSet.of(cpus)) == (read != cpus)


@given(CPUS)
def test_no_cpu_is_lost_and_the_highest_comes_into_the_first_eight(cpus: set[int]) -> None:
    read = as_systemd_reads(CpuSet.of(cpus))
    assert len(read) == len(cpus)
    assert max(cpus) % 8 in read
    assert max(read) // 8 <= max(cpus) // 8


@given(CPUS, CPUS)
def test_another_set_is_not_taken_for_it(cpus: set[int], found: set[int]) -> None:
    is_same = found == read_by_systemd(sent_by_runc(cpus))
    assert is_misread(CpuSet.of(found), CpuSet.of(cpus)) == (is_same and found != cpus)


@given(CPUS, CPUS, CPUS)
def test_offline_cpus_hide_nothing_but_themselves(cpus: set[int], found: set[int], online: set[int]) -> None:
    """What is seen online is the misread set's part, unless nothing of it is online or nothing differs."""
    written, seen, there = CpuSet.of(cpus), CpuSet.of(found), CpuSet.of(online)
    misread = as_systemd_reads(written)
    if is_misread(seen, written, there) and seen != misread:
        assert seen & there == misread & there
        assert seen & there != written & there
    assert is_misread(misread & there, written, there) == bool(misread & there and misread & there != written & there)
