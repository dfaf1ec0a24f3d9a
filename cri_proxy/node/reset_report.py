"""The result of ``cri-proxy reset`` as values: each container's outcome, and its pinning before and after."""

from dataclasses import dataclass
from typing import Literal

from policies.base import Pinning
from policies.container_name import ContainerName

Outcome = Literal["widened", "would widen", "wide already", "opted out", "gone", "refused"]


@dataclass(frozen=True, slots=True)
class ResetContainer(ContainerName):
    """One container: ``before`` as the runtime had it, ``after`` as it has it now, or would have it.

    A field of None is not on record at the runtime: no limit. ``problem`` is the runtime's word for a refusal, or
    why systemd still has other sets of a container that is widened.
    """

    container_id: str
    outcome: Outcome
    before: Pinning
    after: Pinning
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ResetReport:
    """The containers' outcomes, by name; ``dropped`` is the number of saved grants that were dropped."""

    target: Pinning
    containers: tuple[ResetContainer, ...]
    dropped: int
    is_dry: bool

    @property
    def is_complete(self) -> bool:
        """Whether no container was left pinned, in the runtime or in systemd."""
        return all(container.outcome != "refused" and not container.problem for container in self.containers)
