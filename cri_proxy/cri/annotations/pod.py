"""``PodAnnotations``: the annotations of a pod that are read, within one bound for all, each text parsed once. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Final

from cri_proxy.bounded_yaml import NodeCount
from cri_proxy.cri.annotations.device_resources import OF_KOORDINATOR
from cri_proxy.cri.annotations.exact_resources import KEYS
from cri_proxy.cri.annotations.forms import AnnotationProblem, cut, key_in
from cri_proxy.cri.annotations.resource_managers import CPU_SHARED, OF_OTHERS, OF_PEERS
from cri_proxy.cri.annotations.table import DEVICE_RESOURCES, TABLE
from cri_proxy.cri.annotations.values import MAX_BYTES, MAX_NODES, ReadText
from sysfs.known_words import question, similar

# Of our domains: each takes up to 10 µs to look at, for each container. Fifty containers with five keys of their own.
MAX_ANNOTATIONS: Final = 256

# With the name of a container in the key: they are only named in explain, so those of the first ones are enough.
MAX_CPU_SHARED: Final = 64

_KNOWN: Final = frozenset(key for row in TABLE for key in row.keys)
_PARSED: Final = _KNOWN | OF_PEERS
_NAMES_OF_KOORDINATOR: Final = {full_key.rpartition("/")[2]: full_key for full_key in OF_KOORDINATOR}
_KOORDINATORS: Final = re.compile(r"^(?:[^/\n]*\.)?koordinator\.sh/([^/\n]{1,64})$", re.MULTILINE)
_NO_TEXTS: Final[Mapping[str, ReadText]] = MappingProxyType({})
_NONE_COUNTS: Final = "none of them counts"
_MAX_UNKNOWN, _LONGEST_KEY = 16, 64  # bounds for unknown keys that are compared with the table, which is slow
_NEAR = 0.85  # a letter or two of a key; allow.topologyhints is farther from topologyhints


@dataclass(frozen=True, slots=True)
class PodAnnotations:
    """The texts by full key, sorted; without those of other domains, but for the keys of ``OF_OTHERS`` with '' as text.

    Those of ``OF_KOORDINATOR`` are there too: their text is, where a container of the pod asks for device resources. So
    are then keys that are nearly one of these.

    ``problems`` are misspelt keys. Where the annotations are beyond a bound together, that is the one problem, and
    there are no texts.
    """

    texts: Mapping[str, ReadText] = field(default_factory=lambda: _NO_TEXTS)
    problems: tuple[AnnotationProblem, ...] = ()


def select(annotations: Mapping[str, str], domains: Sequence[str]) -> dict[str, str] | AnnotationProblem:
    """Return the annotations that are read, sorted by key, or the problem that they are too many or too long.

    Foreign annotations cost a search in the text of all keys: a pod may have tens of thousands.
    """
    all_keys = "\n".join(annotations)
    found = _in_domains(all_keys, domains)
    if len(found) > MAX_ANNOTATIONS:
        return AnnotationProblem(min(found), "", _excess(f"{len(found)} annotations", MAX_ANNOTATIONS))
    # Kubernetes accepts no key with a line's end in it.
    keys = {full_key for full_key in found if full_key in annotations and key_in(full_key, domains)}
    keys |= {key for key in KEYS if key in annotations}
    if any(key_in(full_key, domains) in DEVICE_RESOURCES.keys for full_key in keys):
        keys |= {key for key in OF_KOORDINATOR if key in annotations}
        unknown = (m for m in _KOORDINATORS.finditer(all_keys) if m[0] not in OF_KOORDINATOR)
        keys |= {found[0] for found in islice(unknown, _MAX_UNKNOWN) if _near(found[1])}
    chosen = {full_key: annotations[full_key] for full_key in sorted(keys)}
    # Characters first: to encode what is far too long would take longer than anything else here.
    size = sum(len(full_key) + len(text) for full_key, text in chosen.items())
    if size <= MAX_BYTES:
        size = sum(len(part.encode(errors="surrogatepass")) for pair in chosen.items() for part in pair)
    if size <= MAX_BYTES:
        # Their texts say nothing here, may be long, and do not count.
        return chosen | {key: "" for key in _of_others(annotations, all_keys) if key not in chosen}
    longest = max(chosen, key=lambda key: (len(chosen[key]), key))
    return AnnotationProblem(longest, cut(chosen[longest]), _excess(f"{size} bytes", MAX_BYTES))


def _excess(size: str, bound: int) -> str:
    return f"the pod has {size} for cri-proxy, more than {bound}: {_NONE_COUNTS}"


def _of_others(annotations: Mapping[str, str], all_keys: str) -> list[str]:
    """Return the full keys that are known and have no effect, sorted."""
    shared = (key for key in annotations if key.startswith(CPU_SHARED)) if CPU_SHARED in all_keys else ()
    known = sorted({*OF_OTHERS, *OF_KOORDINATOR})
    return [*(key for key in known if key in annotations), *sorted(shared)[:MAX_CPU_SHARED]]


def _in_domains(all_keys: str, domains: Sequence[str]) -> list[str]:
    """Return the keys that are in one of the domains; ``all_keys`` has one a line."""
    if not any(domain in all_keys for domain in domains):  # one search instead of tens of thousands
        return []
    return _keys_of(tuple(domains)).findall(all_keys)


@lru_cache(maxsize=4)  # the configuration's domains
def _keys_of(domains: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"^(?:[^/\n]*\.)?(?:{'|'.join(map(re.escape, domains))})(?:/.*)?$", re.MULTILINE)


def parse_pod(chosen: Mapping[str, str] | AnnotationProblem, domains: Sequence[str]) -> PodAnnotations:
    """Parse what ``select`` has chosen. Never raises."""
    if isinstance(chosen, AnnotationProblem):
        return PodAnnotations(problems=(chosen,))
    count = NodeCount()
    texts = {}
    for full_key, text in chosen.items():
        is_parsed = full_key in KEYS or key_in(full_key, domains) in _PARSED
        texts[full_key] = ReadText.of(text, count) if is_parsed else ReadText(text)
        if count.nodes > MAX_NODES:
            problem = (
                f"the pod has more than {MAX_NODES} keys and values in YAML for cri-proxy: {_NONE_COUNTS}; "
                "write long ones as JSON"
            )
            return PodAnnotations(problems=(AnnotationProblem(full_key, cut(text), problem),))
    return PodAnnotations(MappingProxyType(texts), tuple(_misspelt(chosen, domains)))


def _misspelt(annotations: Mapping[str, str], domains: Sequence[str]) -> Iterator[AnnotationProblem]:
    """Yield a problem for each key in our domains that is nearly one of the table, or that is nearly Koordinator's."""
    unknown = ((key, full_key) for full_key in annotations if (key := key_in(full_key, domains)) not in _PARSED)
    asked = ((key, full_key) for key, full_key in unknown if 0 < len(key) <= _LONGEST_KEY)
    koordinators = ((full_key, full_key) for full_key in annotations if _KOORDINATORS.fullmatch(full_key))
    misspelt = (pair for pair in koordinators if pair[0] not in OF_KOORDINATOR and pair[0] not in OF_OTHERS)
    for key, full_key in (*islice(asked, _MAX_UNKNOWN), *misspelt):
        near = _near(key.rpartition("/")[2], *_KNOWN)
        if near:
            yield AnnotationProblem(full_key, cut(annotations[full_key]), f"there is no {key}; {question(near)}")


def _near(key: str, *known: str) -> str:
    """Return which of these keys, or of Koordinator's full ones, a key is nearly; '' if none."""
    near = similar(key, (*known, *_NAMES_OF_KOORDINATOR), _NEAR)
    return _NAMES_OF_KOORDINATOR.get(near, near)
