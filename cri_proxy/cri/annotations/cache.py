"""``AnnotationReader``: read the annotations of a pod for one of its containers; parse each pod's texts once only.

The kubelet sends a pod's annotations with each of its containers, and again at each retry. What was read of them is
kept until the sandbox is removed, the texts differ, or the configuration does.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cri_proxy.cri.annotations.forms import AnnotationProblem
from cri_proxy.cri.annotations.pod import PodAnnotations, parse_pod, select
from cri_proxy.cri.annotations.read import Parsed, read_container
from cri_proxy.cri.annotations.rules import AnnotationRules

# Of texts of all pods together: thousands of pods as they are, or 32 with the longest that are read. Parsed they take
# up to 15 times as much memory.
MAX_KEPT_BYTES: Final = 512 * 1024
_ENTRY_BYTES: Final = 512  # of an entry beside its texts
_MAX_CONTAINERS: Final = 64  # of a pod, whose preferences are kept


@dataclass(slots=True)
class _Kept:
    """A sandbox's annotations as read by these rules; ``parsed`` by container name."""

    rules: AnnotationRules
    chosen: Mapping[str, str]
    pod: PodAnnotations
    parsed: dict[str, Parsed] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        return _ENTRY_BYTES + sum(len(key) + len(text) for key, text in self.chosen.items())


class AnnotationCache:
    """The parsed annotations of the pods that had containers created last."""

    def __init__(self, max_kept_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_kept_bytes = max_kept_bytes
        self._kept: OrderedDict[str, _Kept] = OrderedDict()  # by sandbox id, the last used one last
        self._kept_bytes = 0

    def __len__(self) -> int:
        """Return how many sandboxes there is something of."""
        return len(self._kept)

    def pod_of(self, sandbox_id: str, annotations: Mapping[str, str], rules: AnnotationRules) -> _Kept:
        """Return what was read of the sandbox's annotations, parsed now unless that was done before."""
        chosen = select(annotations, rules.domains)
        if isinstance(chosen, AnnotationProblem) or not chosen:
            return _Kept(rules, {}, parse_pod(chosen, rules.domains))
        kept = self._kept.get(sandbox_id)
        if kept is None or kept.rules != rules or kept.chosen != chosen:
            self.forget(sandbox_id)
            kept = _Kept(rules, chosen, parse_pod(chosen, rules.domains))
            if sandbox_id:
                self._kept[sandbox_id] = kept
                self._kept_bytes += kept.size_bytes
                self._shrink()
        else:
            self._kept.move_to_end(sandbox_id)
        return kept

    def forget(self, sandbox_id: str) -> None:
        """Drop what was read of a sandbox that is gone."""
        kept = self._kept.pop(sandbox_id, None)
        if kept is not None:
            self._kept_bytes -= kept.size_bytes

    def _shrink(self) -> None:
        while self._kept_bytes > self._max_kept_bytes:
            self.forget(next(iter(self._kept)))


@dataclass(frozen=True, slots=True)
class AnnotationReader:
    """Reads by these rules; the cache may serve readers with other rules as well."""

    rules: AnnotationRules = AnnotationRules()  # noqa: RUF009 - frozen
    cache: AnnotationCache = field(default_factory=AnnotationCache)

    def read(
        self, sandbox_id: str, namespace: str, annotations: Mapping[str, str], container: str
    ) -> tuple[PodAnnotations, Parsed]:
        """Return the pod's annotations, and what they say of this container. Never raises.

        Nothing is kept of a sandbox without an id.
        """
        kept = self.cache.pod_of(sandbox_id, annotations, self.rules)
        parsed = kept.parsed.get(container)
        if parsed is None:
            if len(kept.parsed) >= _MAX_CONTAINERS:
                kept.parsed.clear()
            parsed = kept.parsed[container] = read_container(kept.pod, container, namespace, self.rules)
        return kept.pod, parsed
