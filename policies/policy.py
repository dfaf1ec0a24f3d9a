"""The ``Policy`` interface: decide, pinnings, reinstate and fallback are abstract, everything else has defaults."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

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
from policies.devices import EMPTY_INVENTORY, DeviceInventory, JoinedDevices
from policies.options import PolicyOptions
from sysfs.cpuset import CpuSet
from sysfs.model import Machine


@dataclass(frozen=True, slots=True)
class BetterPlaces:
    """Running containers that a fresh decision would place better: their grants there, to be taken in this order.

    ``last`` is the container that was looked at last, None when those that follow it are none: a round is over.
    """

    grants: tuple[Grant, ...] = ()
    last: ContainerKey | None = None


class Policy(ABC):
    """A placement policy, bound to one machine, one set of options and the devices of the node.

    ``devices`` are all that the sources of the node list: with their place in the machine, with costs, or with both;
    ``known`` decides which of them are the same piece of hardware.

    Its methods are pure: no file, clock, random number or log, and the same result for the same arguments. A subclass
    sets ``name``, implements the abstract methods and may override the others.
    """

    name: str
    """The name in the configuration, as in ``policies/registry.py``."""

    def __init__(
        self,
        machine: Machine,
        options: PolicyOptions,
        devices: DeviceInventory = EMPTY_INVENTORY,
        like: Self | None = None,
    ) -> None:
        """Bind to a machine, to options, and to the devices that may be given to containers.

        ``like`` is a policy of the same machine: what is made of that, or of the same devices, need not be made again.
        """
        self._bound_options: Final = options
        self.machine: Final = machine
        self.devices: Final = devices
        nodes = {node.id: node.cpus for node in machine.nodes if node.cpus}
        # Joining compares the identities of all devices: not again for the same inventory.
        joined = like.known if like is not None and like.devices is devices else None
        self.known: Final[JoinedDevices] = joined or JoinedDevices(devices, nodes)
        self.available: Final = options.available & machine.online
        self.reserved: Final = options.reserved & self.available

    def with_devices(self, devices: DeviceInventory) -> Self:
        """Return the same policy for other devices. What it makes of the grants that there are stays the same."""
        return self.rebound(self._bound_options, devices)

    def rebound(self, options: PolicyOptions, devices: DeviceInventory | None = None) -> Self:
        """Return the same policy of this machine for other options, or other devices.

        Raises PolicyOptionsError where the options leave nothing to place on.
        """
        before = self.devices
        if devices is None or (devices == before and (devices is before or devices.statements == before.statements)):
            # The same object: what was made of it is kept by identity (``like``).
            devices = before
        if devices is before and options == self._bound_options:
            return self
        return self._bound_to(options, devices)

    def _bound_to(self, options: PolicyOptions, devices: DeviceInventory) -> Self:
        """Return the policy for these. One whose making is dear hands itself on (``like``)."""
        return type(self)(self.machine, options, devices)

    @abstractmethod
    def decide(self, held: Allocations, request: Request) -> Decision:
        """Decide where this container goes, given what others hold.

        CPUs of its own grant in ``held`` count as free (``Request.previous`` asks for them again). Its memory nodes are
        kept, so that no page of a running container moves.
        """

    def overcommitted(self, held: Allocations, request: Request, refused: Rejected) -> Decision:
        """Return a place with no CPU time booked for a container that ``decide`` refused for want of shared CPUs.

        Return ``refused`` where the container was refused for something else, or no CPU is left to share. No owner
        loses a CPU by this. By default nothing is overcommitted.
        """
        return refused

    def refused_pod(self, held: Allocations, request: Request) -> Rejected | None:
        """Return why no container of this pod could be placed now; None = some may be, or it is not known.

        ``request`` has the sums of the pod, and no container. By default each container is asked for by itself.
        """
        return None

    @abstractmethod
    def pinnings(self, held: Allocations) -> Pinnings:
        """Return what every container should be pinned to now, in no order."""

    @abstractmethod
    def reinstate(self, held: Allocations, requests: Sequence[Request] = ()) -> Reinstated:
        """Keep every grant that is legal here, place the others again, then place ``requests``. Refuse nothing."""

    def at_live(
        self, held: Allocations, requests: Sequence[Request], live: Mapping[ContainerKey, CpuSet]
    ) -> tuple[Allocations, tuple[Request, ...]]:
        """Return grants and requests that were rebuilt from annotations, changed to where ``live`` cpusets show them.

        An annotation does not follow a container that moves. By default nothing moves but by a new annotation.
        """
        return held, tuple(requests)

    @abstractmethod
    def fallback(self, held: Allocations) -> Pinning:
        """Return the pinning of a container for which no decision was made."""

    def release(self, held: Allocations, container: ContainerKey) -> tuple[Update, ...]:
        """Return the updates of others that follow when this container's grant is released."""
        before, after = self.pinnings(held), self.pinnings(held.without(container))
        return tuple(Update(key, after[key]) for key in sorted(after) if after[key] != before[key])

    def pools(self, held: Allocations) -> tuple[PoolView, ...]:
        """Return the pool tree, the root first and parents before children; by default one pool that all share."""
        cpus, none, mems = self.available, CpuSet(), self.machine.memory_nodes
        return (PoolView("root", "", 0, "root", cpus, cpus, none, none, mems, 1000 * len(cpus), 0),)

    def largest_fit(self, held: Allocations) -> LargestFit | None:
        """Return the largest container that could own its CPUs beside these grants; by default none owns any."""
        return None

    def node_free(self, held: Allocations) -> tuple[FreeOnNode, ...]:
        """Return what each NUMA node with CPUs could still give to one container; by default nothing is known."""
        return ()

    @property
    def kept_cpus(self) -> CpuSet:
        """The CPUs that only containers with devices get as their own; by default none."""
        return CpuSet()

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each thing about the machine that the policy cannot take into account."""
        return ()

    def defaults(self, request: Request) -> tuple[Default, ...]:
        """Return the options that decide the parts of this request that its annotations leave open."""
        return ()

    def not_exclusive(self, grant: Grant) -> tuple[Condition, ...]:
        """Return what keeps this container from CPUs of its own, or from some; nothing if it has them."""
        return ()

    def affinity_reasons(self, held: Allocations, request: Request) -> tuple[Reason, ...]:
        """Return a sentence for each container that attracts or repels this one by affinity, strongest first."""
        return ()

    def narrowed(self, held: Allocations) -> tuple[Grant, ...]:
        """Return grants that can give memory nodes back, as they are afterwards: a bounded number, best first."""
        return ()

    def better_places(self, held: Allocations, after: ContainerKey | None = None) -> BetterPlaces:
        """Return few running containers that a fresh decision would place better, of those that follow ``after``.

        Only containers that own no CPU move. Repeated without other changes, this ends.
        """
        return BetterPlaces()

    def after_cold_start(self, held: Allocations, container: ContainerKey) -> tuple[Grant, ...]:
        """Return the grants that change when this container's cold start ends; its own is one of them."""
        return ()
