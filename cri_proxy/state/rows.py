"""What is remembered of containers and sandboxes, and the store's interface."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from cri_proxy.state.decisions import PackedDecision
from policies.base import ContainerKey, Grant, Pinning, Pod

# reserved: decided, the runtime not asked yet; pending: asked, outcome unknown; created, running, exited: as the
# runtime last said. An exited container's grant is free, its CPUs are wanted again by the next attempt.
RowState = Literal["reserved", "pending", "created", "running", "exited"]
ROW_STATES: tuple[RowState, ...] = ("reserved", "pending", "created", "running", "exited")


@dataclass(frozen=True, slots=True)
class DisplacedGrant:
    """Another container that was moved to make room: what it held before. Told from a newer attempt by the order."""

    grant: Grant
    created_order: int


@dataclass(frozen=True, slots=True)
class Row:
    """One container: what it holds, who it is at the runtime and what the runtime has acknowledged.

    ``container_id`` is '' until the runtime has named it. ``acknowledged`` is the last pinning that the runtime
    confirmed, None before the first. ``created_order`` ascends in the order of the decisions. ``warm_at_seconds``,
    since the epoch, is when its cold start ends; None without one. ``doubted`` is what was sent, or is about to be, and
    was never confirmed, field by field: until the runtime has answered the container may be on both sets. ``displaced``
    were moved for it and go back if it never comes to be; nobody once the runtime has named it.
    """

    grant: Grant
    sandbox_id: str
    container_id: str
    state: RowState
    acknowledged: Pinning | None
    created_order: int
    warm_at_seconds: float | None = None
    doubted: Pinning | None = None
    displaced: tuple[DisplacedGrant, ...] = ()

    @property
    def key(self) -> ContainerKey:
        """Whose row this is: the primary key."""
        return self.grant.container


@dataclass(frozen=True, slots=True)
class SandboxRow:
    """One pod sandbox as RunPodSandbox told it; ``config`` is the PodSandboxConfig message, '' if unknown.

    ``annotations`` are sorted by key.
    """

    sandbox_id: str
    pod: Pod
    annotations: tuple[tuple[str, str], ...]
    cgroup_parent: str
    config: bytes


@dataclass(frozen=True, slots=True)
class Saved:
    """All that a store holds: ``rows`` by (pod uid, container name), ``sandboxes`` by id, ``decisions`` by age."""

    rows: tuple[Row, ...] = ()
    sandboxes: tuple[SandboxRow, ...] = ()
    decisions: tuple[PackedDecision, ...] = ()


Saveable = Row | SandboxRow | PackedDecision


class GrantStore(Protocol):
    """Where grants survive us. Implemented by ``state.store.Store`` and, in memory, by the tests' fake."""

    @property
    def recovered(self) -> str | None:
        """What happened to a damaged store that was moved aside at open; None = nothing of the kind."""

    def load(self) -> Saved:
        """Everything saved so far. Blocks; raises StoreError."""

    async def save(self, puts: Sequence[Saveable], deletes: Sequence[ContainerKey | str] = ()) -> None:
        """Make this change durable as a whole; a ``str`` in ``deletes`` is a sandbox id.

        Deletes come before puts, so a key in both ends up saved. Saves take effect in the order of the calls. A
        container's decision goes with its row, unless it ``outlives_row``; of those the newest are kept.
        Cancelling the caller does not withdraw a save. Raises StoreError; then nothing of it is saved.
        """

    async def close(self) -> None:
        """Finish what was asked, then close; a second call does nothing."""
