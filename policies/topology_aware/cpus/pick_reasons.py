"""Describe the CPUs that were picked, as part of a reason: kept, whole or broken cores, near devices, priority."""

from dataclasses import dataclass

from policies.hardware.pools import Pool, PoolTree
from policies.preferences import CpuPriority
from policies.topology_aware.locality.devices import Locality
from sysfs.text import plural, some

_SOME_PLACES = 3  # devices that are named one by one
# What single threads are beside: on one core, on several.
_COMPLETING = "that complete{s} its own core", "that complete its own cores"
_OF_BROKEN = "of a core that was broken already", "of {cores} cores that were broken already"
_OF_WHOLE = "of a core that was whole", "of {cores} cores that were whole"
_BESIDE_RESERVED = "beside a reserved CPU", "beside reserved CPUs"
_THREADS = (_COMPLETING, _OF_BROKEN, _OF_WHOLE, _BESIDE_RESERVED)


@dataclass(frozen=True, slots=True)
class PickedCpus:
    """Masks of the owned CPUs, of those that were kept, and of CPUs that others own; the devices and the priority."""

    owned: int
    kept: int
    taken_before: int
    places: tuple[Locality, ...]
    priority: CpuPriority


def how_picked(tree: PoolTree, pool: Pool, picked: PickedCpus) -> str:
    """Return a part of a sentence, such as ``2 whole cores of NUMA node #1``."""
    new = picked.owned & ~picked.kept
    parts = [f"{picked.kept.bit_count()} kept"] if picked.kept else []
    if new:
        parts += _cores_of(tree, pool, picked, new)
    near, text = _near(picked), _joined(parts)
    text = f"{near}: {text}" if near else text
    preferred = tree.priority_masks[picked.priority]
    if new and picked.priority is not CpuPriority.NONE and len(preferred) > 1:
        rank = "all" if not new & ~preferred[0] else "not all"
        text += f", {rank} of those that priority {picked.priority} prefers"
    return text


def _cores_of(tree: PoolTree, pool: Pool, picked: PickedCpus, new: int) -> list[str]:
    """Return the new CPUs by the state of their cores."""
    home = _smallest_home(tree, pool, new)
    if new == home.sharable and new.bit_count() > tree.threads_per_core:
        return [f"the whole of {home.name}"]
    whole = 0
    threads = {words: [0, 0] for words in _THREADS}  # (threads, cores)
    for core in tree.cores:
        part = core & new
        if part == core:
            whole += 1
        elif part:
            counts = threads[_words_for(tree, pool, picked, core)]
            counts[0] += part.bit_count()
            counts[1] += 1
    parts = [plural(whole, "whole core")] if whole else []
    parts += [_threads_text(words, *counts) for words, counts in threads.items() if counts[0]]
    parts[-1] += f" of {home.name}" if whole and len(parts) == 1 else f" in {home.name}"
    return parts


def _words_for(tree: PoolTree, pool: Pool, picked: PickedCpus, core: int) -> tuple[str, str]:
    """Return the words for threads of a core that the container owns a part of."""
    if not core & ~picked.owned:
        return _COMPLETING
    if core & tree.root.reserved:
        return _BESIDE_RESERVED
    return _OF_BROKEN if core & (picked.taken_before | picked.kept | ~pool.sharable & ~pool.isolated) else _OF_WHOLE


def _threads_text(words: tuple[str, str], threads: int, cores: int) -> str:
    verb = "" if threads > 1 else "s"  # that complete(s)
    return f"{plural(threads, 'thread')} {words[cores > 1].format(cores=cores, s=verb)}"


def _smallest_home(tree: PoolTree, pool: Pool, cpus: int) -> Pool:
    inside = next((c for c in (tree.pools[i] for i in pool.children) if not cpus & ~c.cpus), None)
    return pool if inside is None else _smallest_home(tree, inside, cpus)


def _near(picked: PickedCpus) -> str:
    """Return how many CPUs are near each device; '' if there are no devices, or one has none near."""
    counts = [(picked.owned & place.cpus).bit_count() for place in picked.places]
    if not all(counts):
        return ""
    if len(set(counts)) == 1:
        sources = [source for place in picked.places for source in place.sources]
        return f"{counts[0]} near {'each of ' * (len(counts) > 1)}{some(sources, _SOME_PLACES)}"
    return _joined(
        [f"{n} near {some(place.sources, _SOME_PLACES)}" for n, place in zip(counts, picked.places, strict=True)]
    )


def _joined(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 2 else parts)
