"""How many GPUs a pod wants, read from the pod as the scheduler sends it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cri_proxy.foreign_text import admit
from sysfs.quantity import QuantityError, parse_bytes

GPU_RESOURCE: Final = "nvidia.com/gpu"
_MAX_CONTAINERS: Final = 1000
_SHOWN_BYTES: Final = 300


@dataclass(eq=False)
class QuestionError(ValueError):
    """A request of the scheduler that cannot be used: where, and what is wrong."""

    where: str
    problem: str

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


@dataclass(frozen=True, slots=True)
class GpuDemand:
    """The GPUs of a pod.

    ``together`` has the names and numbers of the containers that run side by side and request some, in the order in
    which the kubelet gives GPUs to them. ``most`` is what the pod needs at its busiest moment.
    """

    together: tuple[tuple[str, int], ...] = ()
    most: int = 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of ``together``."""
        return tuple(count for _, count in self.together)

    @property
    def has_pairs(self) -> bool:
        """Whether links matter: a container with one GPU has no pair."""
        return any(count > 1 for _, count in self.together)

    def __str__(self) -> str:
        """Return it in a few words: it stands in the log, and in the answer for each node."""
        words = ", ".join(f"{name}: {count}" for name, count in self.together) or f"init containers: {self.most}"
        return admit(words, _SHOWN_BYTES)


def demand_of(spec: Mapping[str, object]) -> GpuDemand:
    """Return the demand of a pod's ``spec``. Raises QuestionError.

    An ordinary init container has ended before the next one starts, and leaves its GPUs to those behind it. One with
    ``restartPolicy: Always`` goes on beside them (kubernetes.io, "Sidecar containers", "Resource sharing within
    containers").
    """
    together: list[tuple[str, int]] = []
    beside = most = 0
    for place, container in _containers(spec, "initContainers"):
        count = _gpus(container, place)
        if container.get("restartPolicy") == "Always":
            beside += count
            together.append((_name(container, place), count))
            most = max(most, beside)
        else:
            most = max(most, beside + count)
    for place, container in _containers(spec, "containers"):
        together.append((_name(container, place), _gpus(container, place)))
    needed = tuple((name, count) for name, count in together if count)
    return GpuDemand(needed, max(most, sum(count for _, count in needed)))


def mapping_at(value: object, where: str) -> Mapping[str, object]:
    """Return a JSON object, an empty one for null. Raises QuestionError."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise QuestionError(where, f"expected an object, got {type(value).__name__}")
    return value


def items_at(value: object, where: str) -> Sequence[object]:
    """Return a JSON array, an empty one for null. Raises QuestionError."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise QuestionError(where, f"expected an array, got {type(value).__name__}")
    return value


def count_at(value: object, where: str) -> int:
    """Return a quantity of whole things. Raises QuestionError."""
    try:
        return parse_bytes(str(value))
    except QuantityError:
        raise QuestionError(where, f"expected a number of GPUs, got {str(value)[:40]!r}") from None


def _containers(spec: Mapping[str, object], key: str) -> Sequence[tuple[str, Mapping[str, object]]]:
    found = items_at(spec.get(key), f"spec.{key}")
    if len(found) > _MAX_CONTAINERS:
        raise QuestionError(f"spec.{key}", f"{len(found)} containers; at most {_MAX_CONTAINERS} are read")
    return [(place, mapping_at(item, place)) for i, item in enumerate(found) if (place := f"spec.{key}[{i}]")]


def _name(container: Mapping[str, object], place: str) -> str:
    name = container.get("name")
    return name if isinstance(name, str) and name else place


def _gpus(container: Mapping[str, object], place: str) -> int:
    """Return the limit: of an extended resource it is the request too, and the API server refuses any other."""
    resources = mapping_at(container.get("resources"), f"{place}.resources")
    for kind in ("limits", "requests"):
        amounts = mapping_at(resources.get(kind), f"{place}.resources.{kind}")
        if GPU_RESOURCE in amounts:
            return count_at(amounts[GPU_RESOURCE], f"{place}.resources.{kind}.{GPU_RESOURCE}")
    return 0
