"""Owned CPUs near each of a container's devices when these are on different nodes (nri-plugins: pick by hints)."""

from collections.abc import Sequence
from dataclasses import replace

from policies.hardware.pools import Pool
from policies.topology_aware.cpus.picker import Quarry, pick_cpus, reduced
from policies.topology_aware.locality.devices import Locality


def pick_near(quarry: Quarry, pool: Pool, count: int, places: Sequence[Locality], held: int = 0) -> int:
    """``count`` CPUs as a mask, near each place as many; 0 when that cannot be had.

    Where the number does not divide, or not so many are free at each place: one (a core, if whole ones are wanted)
    near each, the rest beside these. ``held`` are CPUs that the container keeps; they count where they are.
    """
    step = quarry.tree.threads_per_core if quarry.whole else 1
    steps = (count + held.bit_count()) // step
    if not places or steps < len(places):
        return 0
    even = steps // len(places) if steps % len(places) == 0 else 1
    shares = (even * step, step) if even > 1 else (step,)
    found = (_pick_shares(quarry, pool, count, places, share=share, held=held) for share in shares)
    return next((cpus for cpus in found if cpus), 0)


def _pick_shares(quarry: Quarry, pool: Pool, count: int, places: Sequence[Locality], *, share: int, held: int) -> int:
    """At least ``share`` CPUs near each place, those that are ``held`` included."""
    taken = 0
    for place in places:
        missing = share - ((held | taken) & place.cpus).bit_count()
        if missing <= 0:
            continue
        if missing > count - taken.bit_count():
            return 0
        found = pick_cpus(_rest(quarry, taken, place.cpus), pool, missing)
        if not found:
            return 0
        taken |= found
    left = count - taken.bit_count()
    if not left:
        return taken
    rest = _rest(quarry, taken, quarry.free)
    for place in places:
        rest = replace(rest, near=rest.near | rest.free & place.cpus)
    beside = pick_cpus(rest, pool, left)
    return taken | beside if beside else 0


def _rest(quarry: Quarry, taken: int, among: int) -> Quarry:
    return replace(
        quarry,
        free=quarry.free & among & ~taken,
        limits=reduced(quarry.tree, quarry.limits, taken),
        near=quarry.near | taken,
    )
