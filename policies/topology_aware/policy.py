"""``TopologyAware``: the ``Policy`` whose first step sees one grant for each pod that shares; modules do the others."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Self

from policies.answers import Condition, Default, FreeOnNode, LargestFit
from policies.base import (
    Allocations,
    ContainerKey,
    Decision,
    Grant,
    Pinning,
    Pinnings,
    PoolView,
    Reason,
    Reinstated,
    Rejected,
    Request,
    Update,
)
from policies.devices import EMPTY_INVENTORY, DeviceInventory
from policies.hardware.pools import build_pools
from policies.options import PolicyOptions
from policies.policy import BetterPlaces, Policy
from policies.topology_aware.alignment.place import pod_refused
from policies.topology_aware.capacity.largest_fit import ASKING, largest_fit
from policies.topology_aware.capacity.node_free import node_free
from policies.topology_aware.capacity.pool_views import pool_views
from policies.topology_aware.decisions import Decisions
from policies.topology_aware.defaults import defaults_of, reserved_by
from policies.topology_aware.locality.affinity import affinity_reasons
from policies.topology_aware.memory.home import after_cold_start, default_kinds_of
from policies.topology_aware.memory.spill import spilling
from policies.topology_aware.narrow import narrowed
from policies.topology_aware.options import TopologyAwareOptions
from policies.topology_aware.pinning import OtherGrants, at_live_pools, changed_pinnings
from policies.topology_aware.pod_view import PodView
from policies.topology_aware.pods import PodDecisions
from policies.topology_aware.reasons import kept_note
from policies.topology_aware.rebalance import better_places
from policies.topology_aware.supply.exclusive_problems import not_exclusive
from policies.topology_aware.supply.machine_devices import MachineDevices, kept_beside
from policies.topology_aware.supply.supply import Supply, empty_supply
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine

L3_POOLS = {"auto": None, "true": True, "false": False}


class TopologyAware(Policy):
    """Place containers on pools that follow the hardware. Stateless but for caches of the last grants.

    Containers that share the resources of their pod (KEP-2837) have a copy of one grant each, which stays while one of
    them lives. Every method looks at grants with one for each of these pods (``PodView``).
    """

    name = "topology-aware"

    def __init__(
        self,
        machine: Machine,
        options: TopologyAwareOptions,
        devices: DeviceInventory = EMPTY_INVENTORY,
        like: Self | None = None,
    ) -> None:
        """Build the pool tree. Raises PolicyOptionsError when no CPU is available."""
        super().__init__(machine, options, devices, like)
        self._options = options
        self._shape = (self.available, self.reserved, options.l3_pools)
        pools = devices_here = None
        if like is not None:
            # Other options shape no pool: a reload need not build the tree again.
            pools = like._decisions.empty if like._shape == self._shape else None
            devices_here = like._decisions.devices if like.known is self.known else None
        pools = pools or empty_supply(build_pools(machine, options, l3_pools=L3_POOLS[options.l3_pools]), 0)
        devices_here = devices_here or MachineDevices(machine, devices, self.known)
        self._decisions: Decisions = Decisions(pools, options, devices_here)
        self._pods = PodDecisions(self._decisions)

    def _bound_to(self, options: PolicyOptions, devices: DeviceInventory) -> Self:
        return type(self)(self.machine, options, devices, self)  # type: ignore[arg-type]  # of this policy's model

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each level that does not nest, one where ordinary CPUs are missing or kept for devices."""
        kept = self.kept_cpus
        return (*self._decisions.tree.notes, *((kept_note(kept, self._options.device_cpus),) if kept else ()))

    @property
    def kept_cpus(self) -> CpuSet:
        """The CPUs that containers without devices do not own while no container holds an accelerator."""
        empty = self._decisions.empty
        if not empty.accelerators:
            return CpuSet()
        count, shifts = self._options.kept_per_device, empty.tree.sibling_shifts
        return CpuSet(kept_beside(empty.free_accelerators, count, empty.shared[0], shifts))

    def _seen(self, held: Allocations) -> tuple[PodView, Supply]:
        """Return the first step of every method: the grants by owner, and what they leave."""
        view = self._pods.view(held)
        return view, self._decisions.supply(view.owners)

    def defaults(self, request: Request) -> tuple[Default, ...]:
        """Return the options that decide the parts of this request that its annotations leave open."""
        return defaults_of(request, self._options)

    def not_exclusive(self, grant: Grant) -> tuple[Condition, ...]:
        """Return what keeps this container from CPUs of its own, or from some of what it asks for."""
        return not_exclusive(grant, self._options, reserved_by(grant.request.pod.namespace, self._options))

    def affinity_reasons(self, held: Allocations, request: Request) -> tuple[Reason, ...]:
        """Return a sentence for each container that attracts or repels this one by affinity, strongest first."""
        return affinity_reasons(self._decisions.tree, self._options, self._pods.view(held).owners, request)

    def decide(self, held: Allocations, request: Request) -> Decision:
        """Decide where this container goes: with its pod's others, or to a place of its own."""
        return self._pods.decide(held, request, self._decisions.decide)

    def overcommitted(self, held: Allocations, request: Request, refused: Rejected) -> Decision:
        """Return a place in a wide pool, with no CPU time booked, for a container that only shares CPUs."""
        return self._pods.decide(held, request, partial(self._decisions.overcommitted, refused=refused))

    def refused_pod(self, held: Allocations, request: Request) -> Rejected | None:
        """Return why no NUMA nodes satisfy the topology policy for this pod."""
        return pod_refused(self._decisions.context(self._pods.view(held).owners, request))

    def pinnings(self, held: Allocations) -> Pinnings:
        """Return what every container should be pinned to now."""
        return self._pods.pinnings(held)

    def release(self, held: Allocations, container: ContainerKey) -> tuple[Update, ...]:
        """Return the updates of others that follow when this container's grant is released."""
        view, before = self._seen(held)
        own = view.owners.get(container)
        if own is None or len(view.containers(container)) > 1:
            return ()  # the others of its pod keep the CPUs
        others = OtherGrants(view.owners.without(own.container).grants)
        return view.updates(changed_pinnings(before, before.minus(own), others, self._options))

    def narrowed(self, held: Allocations) -> tuple[Grant, ...]:
        """Return grants that can give memory nodes back, as they are afterwards: a bounded number, best first."""
        view, supply = self._seen(held)
        return tuple(view.each(narrowed(self._options, view.owners, supply)))

    def better_places(self, held: Allocations, after: ContainerKey | None = None) -> BetterPlaces:
        """Return few sharers that a fresh decision would place better, at most ``MovesPerCheck``."""
        view, supply = self._seen(held)
        found = better_places(self._options, view.owners, supply, after)
        return BetterPlaces(tuple(view.each(found.grants)), found.last)

    def after_cold_start(self, held: Allocations, container: ContainerKey) -> tuple[Grant, ...]:
        """Return the container's grant with DRAM, and those of the containers that share it; nothing without one."""
        view, supply = self._seen(held)
        own = view.owners.get(view.owner(container))
        # It may have ended, or been placed again with DRAM, while its time ran.
        if own is None or not own.is_cold:
            return ()
        warm = spilling(supply.memory.nodes, after_cold_start(supply, own), self._options, own.spill)
        return tuple(view.each((warm,)))

    def reinstate(self, held: Allocations, requests: Sequence[Request] = ()) -> Reinstated:
        """Keep every grant that is legal here, place the others again, then place ``requests``. Refuse nothing."""
        return self._pods.reinstate(held, requests)

    def at_live(
        self, held: Allocations, requests: Sequence[Request], live: Mapping[ContainerKey, CpuSet]
    ) -> tuple[Allocations, tuple[Request, ...]]:
        """Return grants and requests with the pools in which these containers share CPUs by their live cpusets.

        Containers that share a grant are where the one is that stands for them.
        """
        view = self._pods.view(held)
        # Annotations may say what cannot be, as CPUs with two owners: no later supply may start from that of these.
        supply = self._decisions.empty_beside(held).plus(*view.owners.grants)
        owners, asked = at_live_pools(self._options, supply, view.owners, requests, live)
        return view.as_held(owners), asked

    def fallback(self, held: Allocations) -> Pinning:
        """Return the root's shared set, else the reserved CPUs (None if every CPU is owned), and its nodes but HBM."""
        _, supply = self._seen(held)
        cpus = CpuSet(supply.effective()[0]) or None
        mems = NodeSet(default_kinds_of(supply.memory.nodes, supply.tree.root.mems)) or None
        return Pinning(cpus if self._options.pin_cpu else None, mems if self._options.pin_memory else None)

    def largest_fit(self, held: Allocations) -> LargestFit:
        """Return the largest container that could own its CPUs beside these grants."""
        return largest_fit(self._decisions.context(self._pods.view(held).owners, ASKING))

    def node_free(self, held: Allocations) -> tuple[FreeOnNode, ...]:
        """Return what each NUMA node with CPUs could still give to one Guaranteed container."""
        return node_free(self._decisions.context(self._pods.view(held).owners, ASKING))

    def pools(self, held: Allocations) -> tuple[PoolView, ...]:
        """Return the pool tree, parents before children."""
        return pool_views(self._seen(held)[1])
