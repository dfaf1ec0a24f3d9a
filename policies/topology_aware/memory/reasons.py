"""Reasons of memory decisions: one function per sentence, with its code; amounts, kinds and nodes in words."""

from collections.abc import Sequence

from policies.base import Grant, HugePageLimit, Reason
from policies.topology_aware.reason_codes import ReasonCode
from sysfs.cpuset import NodeSet
from sysfs.model import MemoryKind
from sysfs.quantity import bytes_text
from sysfs.text import numbered

_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def amount_text(amount_bytes: int) -> str:
    """Return an amount of memory in words.

    >>> amount_text(3 << 29), amount_text(64 << 20), amount_text(5)
    ('1.5 GiB', '64 MiB', '5 bytes')
    """
    for unit, name in _UNITS:
        if amount_bytes >= unit:
            return f"{amount_bytes / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{amount_bytes} bytes"


def kinds_text(kinds: Sequence[MemoryKind]) -> str:
    """Return kinds of memory in words.

    >>> kinds_text((MemoryKind.DRAM, MemoryKind.PMEM))
    'DRAM and PMEM'
    """
    return " and ".join(kind.name for kind in kinds)


def memory_nodes_text(zone: int) -> str:
    """Return memory nodes in words.

    >>> memory_nodes_text(0b10), memory_nodes_text(0b111)
    ('memory node 1', 'memory nodes 0-2')
    """
    return numbered("memory node", NodeSet(zone))


def _verb(zone: int, singular: str, plural: str) -> str:
    return singular if zone.bit_count() == 1 else plural


def widened(home: int, zone: int, promised_bytes: int) -> Reason:
    """The container's zone is wider than on an empty machine."""
    text = f"{amount_text(promised_bytes)} do not fit in {memory_nodes_text(home)} beside what others are promised"
    return Reason(ReasonCode.MEMORY_WIDENED, f"{text}: it gets {memory_nodes_text(zone)}")


def beyond_near(near: int, added: int, promised_bytes: int) -> Reason:
    """The nodes at its CPUs are smaller than what it is promised."""
    text = f"{amount_text(promised_bytes)} are more than {memory_nodes_text(near)} {_verb(near, 'has', 'have')}"
    nearest = f"the nearest, {memory_nodes_text(added)}, {_verb(added, 'comes', 'come')} with it"
    return Reason(ReasonCode.MEMORY_BEYOND_NODE, f"{text}: {nearest}")


def others_widened(others: Sequence[Grant]) -> Reason:
    """Others get more memory nodes so that this one fits."""
    count = f"{len(others)} container{' gets' if len(others) == 1 else 's get'}"
    names = ", ".join(f"{g.request.pod.name}/{g.container.name} now {g.mems}" for g in others)
    return Reason(ReasonCode.MEMORY_OTHERS_WIDENED, f"{count} more memory nodes to make room: {names}")


def short(zone: int, promised_bytes: int) -> Reason:
    """More memory is promised than the machine has."""
    text = f"this machine does not have {amount_text(promised_bytes)} of memory left that is not promised to others"
    return Reason(ReasonCode.MEMORY_SHORT, f"{text}: it gets {memory_nodes_text(zone)}")


def spills(zone: int, beyond: int) -> Reason:
    """It has no memory limit and may use more nodes than its zone."""
    full = f"{memory_nodes_text(zone)} {_verb(zone, 'is', 'are')} full"
    text = f"it has no memory limit (UnlimitedMemory=spill): when {full}"
    return Reason(ReasonCode.MEMORY_SPILLS, f"{text}, the kernel takes {memory_nodes_text(beyond)}, the nearest first")


def stays(zone: int) -> Reason:
    """It has no memory limit and stays within its zone."""
    text = f"it has no memory limit and stays in {memory_nodes_text(zone)} (UnlimitedMemory=strict)"
    return Reason(ReasonCode.MEMORY_STAYS, f"{text}: it is OOM-killed when {_verb(zone, 'that is', 'these are')} full")


def kinds_absent(absent: Sequence[MemoryKind], zone: int) -> Reason:
    """The machine lacks kinds of memory that the container asks for."""
    text = f"this machine has no {kinds_text(absent)}: it gets {memory_nodes_text(zone)}"
    return Reason(ReasonCode.MEMORY_KINDS_ABSENT, text)


def normal_added(added: int) -> Reason:
    """The zone would be movable memory only."""
    text = "what it asks for is movable memory only, in which the kernel cannot keep its part"
    with_it = f"{memory_nodes_text(added)} {_verb(added, 'comes', 'come')} with it"
    return Reason(ReasonCode.MEMORY_NORMAL_ADDED, f"{text}: {with_it}")


def starts_cold(zone: int, withheld: int, seconds: int) -> Reason:
    """DRAM is withheld at first."""
    later = f"{memory_nodes_text(withheld)} {_verb(withheld, 'comes', 'come')} after {seconds} s"
    return Reason(ReasonCode.COLD_START, f"starts cold in {memory_nodes_text(zone)}: {later}")


def no_cold_start(why: str) -> Reason:
    """A cold start that was asked for is not possible."""
    return Reason(ReasonCode.NO_COLD_START, f"no cold start: {why}")


def strict_memory(kinds: Sequence[MemoryKind], why: str) -> Reason:
    """A strict preference for kinds of memory cannot be met."""
    return Reason(ReasonCode.STRICT_MEMORY, f"wanted memory of kind {kinds_text(kinds)} and no other; {why}")


def outside_alignment(zone: int, why: str) -> Reason:
    """The memory of the nodes that hints were merged to does not suffice."""
    return Reason(ReasonCode.STRICT_TOPOLOGY, f"topology hints keep its memory on {memory_nodes_text(zone)}; {why}")


def no_room(zone: int, promised_bytes: int) -> str:
    """Return why a strict preference cannot be met although the kinds exist."""
    have = _verb(zone, "does not have", "do not have")
    return f"{memory_nodes_text(zone)} {have} {amount_text(promised_bytes)} left that is not promised to others"


def rezoned(zone: int, *, gone: int) -> Reason:
    """A saved grant keeps its CPUs and gets other memory nodes."""
    why = f"{memory_nodes_text(gone)} {_verb(gone, 'is', 'are')} gone" if gone else "there is less memory now"
    return Reason(ReasonCode.MEMORY_REZONED, f"{why}: it gets {memory_nodes_text(zone)} and keeps its CPUs")


def _pages_text(pages: HugePageLimit) -> str:
    return f"{amount_text(pages.limit_bytes)} of {bytes_text(pages.page_bytes)} huge pages"


def huge_pages(wanted: Sequence[HugePageLimit], zone: int, added: int) -> Reason:
    """The zone has all the huge pages that the container may use."""
    text = f"its {' and '.join(map(_pages_text, wanted))} are on {memory_nodes_text(zone)}"
    if not added:
        return Reason(ReasonCode.HUGE_PAGES, text)
    with_it = f"{memory_nodes_text(added)} {_verb(added, 'comes', 'come')} with its own for them"
    return Reason(ReasonCode.HUGE_PAGES_WIDENED, f"{text}: {with_it}")


def huge_pages_short(missing: HugePageLimit, zone: int, *, exist: bool) -> Reason:
    """More huge pages are promised than there are, or none of that size ``exist``."""
    text = f"this machine does not have {_pages_text(missing)} left that are not promised to others"
    if not exist:
        text = f"this machine has no {bytes_text(missing.page_bytes)} huge pages"
    return Reason(ReasonCode.HUGE_PAGES_SHORT, f"{text}: it gets {memory_nodes_text(zone)}")


def strict_huge_pages(missing: HugePageLimit, zone: int) -> Reason:
    """A strict preference for huge pages on the nodes of a pool cannot be met."""
    have = _verb(zone, "does not have", "do not have")
    text = f"wanted {_pages_text(missing)} on the memory nodes of one pool; {memory_nodes_text(zone)} {have} these left"
    return Reason(ReasonCode.STRICT_HUGE_PAGES, text)
