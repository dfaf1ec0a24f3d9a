"""Compute how busy the shared CPUs of every pool are: requested CPU time per CPU, that of wider pools included."""

from dataclasses import dataclass

from policies.topology_aware.supply.supply import Supply

IDLE_MCPU = 100
"""Counted for a container that asks for no CPU time: a tenth of a CPU. So the first ten of them go to the widest of
idle sets, and one that asks for a CPU weighs as much as ten."""
CROWDED_MCPU = 200
"""How much busier than the machine's shared CPUs on average a set may be before a wider one is better: less is noise
of single small requests, more than the fifth of a CPU is felt."""
FELT_MCPU = 50
"""How much more CPU time requested for each shared CPU a container feels: less is the noise of small requests."""
_NO_CPU = 1_000_000
"""The load of a set in use without a CPU: more than that of any other, as no set is booked above what it has."""


@dataclass(frozen=True, slots=True)
class Load:
    """The load of the shared sets. Tuples have one entry per pool.

    ``inside`` is what runs in the pool and below, in 1/1000 CPU; ``around`` is what wider pools add to each of its
    CPUs: they load all of theirs evenly.
    """

    cpus: tuple[int, ...]
    inside: tuple[int, ...]
    around: tuple[float, ...]

    def after(self, pool: int, mcpu: int, owned: int = 0) -> int:
        """Return the load per CPU, in 1/1000, of a set with ``mcpu`` more in it and without ``owned`` of its CPUs."""
        inside, left = self.inside[pool] + mcpu, self.cpus[pool] - owned
        if left > 0:
            return round(inside / left + self.around[pool])
        return _NO_CPU if inside else 0

    def idle(self, pool: int) -> int:
        """Return the CPU time of a set that no container asks for, in 1/1000 CPU."""
        return max(0, round(1000 * self.cpus[pool] - self.inside[pool] - self.around[pool] * self.cpus[pool]))

    def crowding(self, pool: int, but_mcpu: int = 0) -> int:
        """Return by how much the set is busier than the machine on average and ``CROWDED_MCPU``, in tenths of a CPU.

        ``but_mcpu`` of what runs there does not count: for a container in it, what it asks for itself.
        """
        return -(-max(0, self.after(pool, -but_mcpu) - self.after(0, -but_mcpu) - CROWDED_MCPU) // 100)


def load_of(supply: Supply) -> Load:
    """Return the load of every pool. Sharers of an empty set count in the next pool above, where they run."""
    pools = supply.tree.pools
    cpus = tuple(shared.bit_count() for shared in supply.shared)
    own = [IDLE_MCPU * count for count in supply.unbooked_sharers]
    inside = [0] * len(pools)
    for pool, granted in zip(pools[1:], supply.granted_mcpu[1:], strict=True):
        own[pool.parent] -= granted  # the sums are over the subtree
    for pool in reversed(pools):
        i, up = pool.index, pool.parent
        own[i] += supply.granted_mcpu[i]
        # They run on the next wider set that has CPUs (``Supply.effective``).
        if up >= 0 and not cpus[i]:
            own[up] += own[i]
            own[i] = 0
        inside[i] += own[i]
        if up >= 0:
            inside[up] += inside[i]
    around = [0.0] * len(pools)
    for pool in pools[1:]:
        up = pool.parent
        around[pool.index] = around[up] + (own[up] / cpus[up] if cpus[up] else 0.0)
    return Load(cpus, tuple(inside), tuple(around))
