"""Describe the CPUs that were picked, as part of a reason: kept, whole or broken cores, near devices, priority."""

from dataclasses import dataclass

from policies.base import CpuPriority
from policies.hardware.pools import Pool, PoolTree
from policies.topology_aware.locality.devices import Locality

_SOME_PLACES = 3  # devices that are named one by one


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
    whole = completed = was_broken = is_broken = 0
    for core in tree.cores:
        part = core & new
        if not part:
            continue
        if part == core:
            whole += 1
        elif not core & ~picked.owned:
            completed += part.bit_count()
        elif core & (picked.taken_before | picked.kept | ~pool.sharable & ~pool.isolated):
            was_broken += part.bit_count()
        else:
            is_broken += part.bit_count()
    threads = (
        (completed, "that complete" if completed > 1 else "that completes", "its own core"),
        (was_broken, "of a core that was broken already", ""),
        (is_broken, "of a core that was whole", ""),
    )
    parts = [f"{whole} whole core{'s' * (whole > 1)}"] if whole else []
    parts += [f"{n} thread{'s' * (n > 1)} {' '.join(words).strip()}" for n, *words in threads if n]
    parts[-1] += f" of {home.name}" if whole and len(parts) == 1 else f" in {home.name}"
    return parts


def _smallest_home(tree: PoolTree, pool: Pool, cpus: int) -> Pool:
    inside = next((c for c in (tree.pools[i] for i in pool.children) if not cpus & ~c.cpus), None)
    return pool if inside is None else _smallest_home(tree, inside, cpus)


def _near(picked: PickedCpus) -> str:
    """Return how many CPUs are near each device; '' if there are no devices, or one has none near."""
    counts = [(picked.owned & place.cpus).bit_count() for place in picked.places]
    if not all(counts):
        return ""
    if len(set(counts)) == 1:
        sources = (source for place in picked.places for source in place.sources)
        return f"{counts[0]} near {'each of ' * (len(counts) > 1)}{_named(*sources)}"
    return _joined([f"{n} near {_named(*place.sources)}" for n, place in zip(counts, picked.places, strict=True)])


def _named(*sources: str) -> str:
    more = len(sources) - _SOME_PLACES
    return ", ".join(sources[:_SOME_PLACES]) + (f" and {more} more" if more > 0 else "")


def _joined(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 2 else parts)
