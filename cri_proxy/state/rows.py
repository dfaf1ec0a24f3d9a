"""The values that the store saves (container and sandbox rows), and the interface that both stores implement."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from cri_proxy.state.decisions import PackedDecision
from policies.base import ContainerKey, Grant, Pinning, Pod
from policies.container_name import ContainerName

# reserved: decided, the runtime not asked yet; pending: asked, outcome unknown; created, running, exited: as the
# runtime last said. An exited container's grant is free, its CPUs are wanted again by the next attempt.
RowState = Literal["reserved", "pending", "created", "running", "exited"]

_UNKNOWN = Pinning()


@dataclass(frozen=True, slots=True)
class DisplacedGrant:
    """The former grant of a container that was moved to make room; the order tells it from a newer attempt."""

    grant: Grant
    created_order: int


@dataclass(frozen=True, slots=True)
class Row:
    """One container: its grant, its identity at the runtime and the pinning that the runtime has acknowledged.

    ``container_id`` is '' until the runtime has assigned one. ``acknowledged`` is the last pinning that the runtime
    confirmed, None before the first. ``created_order`` ascends in the order of the decisions. ``warm_at_seconds``,
    since the epoch, is when its cold start ends; None without one. ``unconfirmed`` is the pinning that was sent, or is
    about to be, and was never confirmed, field by field: until the runtime answers the container may be on both sets.
    ``displaced`` containers were moved for it and go back if it is not created; empty once it is.
    """

    grant: Grant
    sandbox_id: str
    container_id: str
    state: RowState
    acknowledged: Pinning | None
    created_order: int
    warm_at_seconds: float | None = None
    unconfirmed: Pinning | None = None
    displaced: tuple[DisplacedGrant, ...] = ()

    @property
    def key(self) -> ContainerKey:
        """The primary key."""
        return self.grant.container

    @property
    def name(self) -> ContainerName:
        """The container's name, with those of its namespace and pod."""
        return self.grant.request.full_name

    @property
    def known(self) -> Pinning:
        """``acknowledged``, or no field before the first confirmation."""
        return self.acknowledged or _UNKNOWN

    def after(self, confirmed: Pinning) -> "Row":
        """Return the row after an update that the runtime confirmed; a field that it did not write keeps its value."""
        open_cpus, open_mems = (self.unconfirmed.cpus, self.unconfirmed.mems) if self.unconfirmed else (None, None)
        # Field by field: an update that wrote CPUs proves nothing of memory nodes that were sent before.
        left = Pinning(open_cpus if confirmed.cpus is None else None, open_mems if confirmed.mems is None else None)
        return replace(self, acknowledged=confirmed.over(self.acknowledged), unconfirmed=_or_none(left))

    def unmet(self, target: Pinning) -> Pinning:
        """Return those fields of ``target`` that the runtime has not confirmed; None for the others."""
        known, unconfirmed = self.acknowledged or _UNKNOWN, self.unconfirmed or _UNKNOWN
        return Pinning(
            target.cpus if unconfirmed.cpus is not None or target.cpus != known.cpus else None,
            target.mems if unconfirmed.mems is not None or target.mems != known.mems else None,
        )

    def needs_call(self, target: Pinning) -> bool:
        """Return whether something of ``target`` is ``unmet``."""
        known, unconfirmed = self.acknowledged or _UNKNOWN, self.unconfirmed or _UNKNOWN
        needs_cpus = target.cpus is not None and (unconfirmed.cpus is not None or target.cpus != known.cpus)
        return needs_cpus or (target.mems is not None and (unconfirmed.mems is not None or target.mems != known.mems))

    def after_unknown(self, sent: Pinning) -> "Row":
        """Return the row after an update without a known outcome: the container may be on both sets."""
        known = self.acknowledged
        if known is not None:
            known = Pinning(
                known.cpus | sent.cpus if known.cpus is not None and sent.cpus is not None else known.cpus,
                known.mems | sent.mems if known.mems is not None and sent.mems is not None else known.mems,
            )
        return replace(self, acknowledged=known, unconfirmed=_or_none(sent.over(self.unconfirmed)))


def _or_none(pinning: Pinning) -> Pinning | None:
    return pinning if pinning != Pinning() else None


@dataclass(frozen=True, slots=True)
class SandboxRow:
    """One pod sandbox as in its RunPodSandbox; ``config`` is the PodSandboxConfig message, empty if unknown.

    ``annotations`` are sorted by key.
    """

    sandbox_id: str
    pod: Pod
    annotations: tuple[tuple[str, str], ...]
    cgroup_parent: str
    config: bytes


@dataclass(frozen=True, slots=True)
class Saved:
    """The content of a store: ``rows`` by (pod uid, container name), ``sandboxes`` by id, ``decisions`` by age."""

    rows: tuple[Row, ...] = ()
    sandboxes: tuple[SandboxRow, ...] = ()
    decisions: tuple[PackedDecision, ...] = ()


@dataclass(frozen=True, slots=True)
class GonePod:
    """A pod without a sandbox, to be deleted: no decision about its containers is kept."""

    uid: str


Saveable = Row | SandboxRow | PackedDecision


def is_to_be_synced(put: Saveable) -> bool:
    """Return whether this is to survive a power failure: what the runtime is about to hear of.

    Anything else it knows already, and a list of its containers shows it.
    """
    return isinstance(put, Row) and (put.state == "reserved" or put.unconfirmed is not None)


Deletable = ContainerKey | GonePod | str  # a container's row, what is kept about a pod, a sandbox by its id


class GrantStore(Protocol):
    """Keeps rows across restarts. Implemented by ``state.store.Store`` and ``state.memory_store.MemoryStore``."""

    def load(self) -> Saved:
        """Return everything saved so far. Blocks; raises StoreError."""

    async def save(self, puts: Sequence[Saveable], deletes: Sequence[Deletable] = ()) -> None:
        """Make this change durable as a whole: the end of this process does not undo it.

        Deletes are applied before puts, so a key in both is saved. Saves take effect in the order of the calls.
        Deleting a container's row deletes its decision, unless that ``outlives_row``; the newest of those are kept
        until their pod is gone.
        Cancelling the caller does not withdraw a save. Raises StoreError; then nothing is saved.
        """

    async def close(self) -> None:
        """Finish the saves that wait, then close; a second call does nothing."""
