"""``AnnotationReader``: read the annotations of a pod for one of its containers; parse equal texts once only.

The kubelet sends a pod's annotations with each of its containers, and again at each retry; the pods of one workload
have the same ones. What was read is kept by the texts and the configuration.
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
_MAX_CONTAINERS: Final = 64  # whose preferences are kept, of pods with the same texts

_Texts = tuple[AnnotationRules, tuple[tuple[str, str], ...]]  # (rules, annotations that are read)

_NO_ANNOTATIONS: Final = PodAnnotations()
_NOTHING_SAID: Final = Parsed()


@dataclass(slots=True)
class _Kept:
    """A pod's annotations as read by some rules; ``parsed`` by container name and namespace."""

    pod: PodAnnotations
    size_bytes: int = 0
    parsed: dict[tuple[str, str], Parsed] = field(default_factory=dict)


class AnnotationCache:
    """The parsed annotations of the pods that had containers created last, those with the same texts once."""

    def __init__(self, max_kept_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_kept_bytes = max_kept_bytes
        self._kept: OrderedDict[_Texts, _Kept] = OrderedDict()  # the last used one last
        self._kept_bytes = 0

    def __len__(self) -> int:
        """Return of how many different texts there is something."""
        return len(self._kept)

    def pod_of(self, annotations: Mapping[str, str], rules: AnnotationRules) -> _Kept:
        """Return the values of these annotations, parsed now unless that was done before."""
        chosen = select(annotations, rules.domains)
        if isinstance(chosen, AnnotationProblem) or not chosen:
            return _Kept(parse_pod(chosen, rules.domains))
        texts = rules, tuple(chosen.items())
        kept = self._kept.get(texts)
        if kept is None:
            size_bytes = _ENTRY_BYTES + sum(len(key) + len(text) for key, text in chosen.items())
            kept = self._kept[texts] = _Kept(parse_pod(chosen, rules.domains), size_bytes)
            self._kept_bytes += size_bytes
            while self._kept_bytes > self._max_kept_bytes:
                self._kept_bytes -= self._kept.popitem(last=False)[1].size_bytes
        else:
            self._kept.move_to_end(texts)
        return kept


@dataclass(frozen=True, slots=True)
class AnnotationReader:
    """Reads by these rules; the cache may serve readers with other rules as well."""

    rules: AnnotationRules = AnnotationRules()  # noqa: RUF009 - frozen
    cache: AnnotationCache = field(default_factory=AnnotationCache)

    def read(self, namespace: str, annotations: Mapping[str, str], container: str) -> tuple[PodAnnotations, Parsed]:
        """Return the pod's annotations, and what they say of this container. Never raises."""
        kept = self.cache.pod_of(annotations, self.rules)
        if kept.pod == _NO_ANNOTATIONS:
            return kept.pod, _NOTHING_SAID
        parsed = kept.parsed.get((container, namespace))
        if parsed is None:
            if len(kept.parsed) >= _MAX_CONTAINERS:
                kept.parsed.clear()
            parsed = read_container(kept.pod, container, namespace, self.rules)
            kept.parsed[container, namespace] = parsed
        return kept.pod, parsed
