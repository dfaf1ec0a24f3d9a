"""``PodAnnotations``: the annotations of a pod that are read, within one bound for all, each text parsed once. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from cri_proxy.cri.annotations.values import MAX_BYTES, MAX_NODES, ReadText, by_container
from sysfs.known_words import question, similar

GRANT_KEY: Final = "cri-proxy.io/grant"  # on containers only, written by us: see cri/grant_text.py

# Of our domains: each takes up to 10 µs to look at, for each container. Fifty containers with five keys of their own.
MAX_ANNOTATIONS: Final = 256

# With the name of a container in the key: they are only named in explain, so those of the first ones are enough.
MAX_CPU_SHARED: Final = 64

_ROWS: Final = {key: row for row in TABLE for key in row.keys}
_KNOWN: Final = frozenset(_ROWS)
_PARSED: Final = _KNOWN | OF_PEERS
_CONTAINER: Final = re.compile(r"container\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")  # Kubernetes: a DNS label
_NAMES_OF_KOORDINATOR: Final = {full_key.rpartition("/")[2]: full_key for full_key in OF_KOORDINATOR}
_KOORDINATORS: Final = re.compile(r"^(?:[^/\n]*\.)?koordinator\.sh/([^/\n]{1,64})$", re.MULTILINE)
_NO_TEXTS: Final[Mapping[str, ReadText]] = MappingProxyType({})
_NONE_COUNTS: Final = "none of them counts"
_MAX_UNKNOWN, _LONGEST_KEY = 16, 64  # bounds for unknown keys that are compared with the table, which is slow
_NEAR, _LIKE = 0.85, 0.7  # a letter or two of a key of others; what was probably meant by an unknown one


@dataclass(frozen=True, slots=True)
class PodAnnotations:
    """The texts by full key, sorted; without those of other domains, but for the keys of ``OF_OTHERS`` with '' as text.

    Those of ``OF_KOORDINATOR`` are there too: their text is, where a container of the pod asks for device resources. So
    are then keys that are nearly one of these.

    ``problems`` are keys under which no value is looked for. Where the annotations are beyond a bound together, that is
    the one problem, and there are no texts. ``named`` are the containers that keys and values name.
    """

    texts: Mapping[str, ReadText] = field(default_factory=lambda: _NO_TEXTS)
    problems: tuple[AnnotationProblem, ...] = ()
    named: frozenset[str] = frozenset()


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
        unknown = (m for m in _KOORDINATORS.finditer(all_keys) if m[0] not in OF_OTHERS.union(OF_KOORDINATOR))
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
    named = frozenset(name for full_key, read in texts.items() for name in named_in(full_key, read, domains))
    return PodAnnotations(MappingProxyType(texts), tuple(_unknown(chosen, domains)), named)


def named_in(full_key: str, read: ReadText, domains: Sequence[str]) -> Iterable[str]:
    """Return the names of containers in an annotation of the table."""
    row = _ROWS.get(key_in(full_key, domains))
    _, is_named, name = full_key.partition("/container.")
    if row is None or is_named or read.problem:
        return (name,) if row and is_named else ()
    entries = by_container(read.value, row.value_fields) or {}
    lists = (entry for entry in entries.values() if row.by_container_only and isinstance(entry, list))
    return (*entries, *(name for entry in lists for name in entry if isinstance(name, str)))


def _unknown(annotations: Mapping[str, str], domains: Sequence[str]) -> Iterator[AnnotationProblem]:
    """Yield a problem for each key in our domains that has no effect, and for what is nearly a key of Koordinator's."""
    wrong = ((key, why) for key in annotations if key_in(key, domains) and (why := _why_unknown(key, domains)))
    for number, (full_key, why) in enumerate(wrong):
        if number == _MAX_UNKNOWN:
            yield AnnotationProblem(full_key, cut(annotations[full_key]), f"unknown, after {number} others: see these")
            break
        yield AnnotationProblem(full_key, cut(annotations[full_key]), why)
    for full_key in annotations:
        if _KOORDINATORS.fullmatch(full_key) and full_key not in OF_KOORDINATOR and full_key not in OF_OTHERS:
            near = _near(full_key.rpartition("/")[2], *_KNOWN)
            yield AnnotationProblem(full_key, cut(annotations[full_key]), f"there is no {full_key}; {question(near)}")


def _why_unknown(full_key: str, domains: Sequence[str]) -> str:
    """Return why no container's value can be found under this key; '' where one can."""
    key = key_in(full_key, domains)
    prefix, separator, scope = full_key.partition("/")
    if key not in _PARSED:
        return "" if full_key == GRANT_KEY else _no_such_key(key)
    if prefix in domains:
        return ""
    if (row := _ROWS.get(key)) and row.by_container_only:
        return f"write {prefix.removeprefix(f'{key}.')}/{key}: CONTAINER: ..., a map by container name"
    if not separator or scope == "pod" or _CONTAINER.fullmatch(scope):
        return ""
    return f"expected /pod or /container.NAME behind the key, got /{cut(scope)}"


def _no_such_key(key: str) -> str:
    near = _near(key.rpartition("/")[2], *_KNOWN, least=_LIKE) if len(key) <= _LONGEST_KEY else ""
    return f"there is no {cut(key)}; {question(near) if near else 'docs/reference/annotations.md lists the keys'}"


def _near(key: str, *known: str, least: float = _NEAR) -> str:
    """Return which of these keys, or of Koordinator's full ones, a key is nearly; '' if none."""
    near = similar(key, (*known, *_NAMES_OF_KOORDINATOR), least)
    return _NAMES_OF_KOORDINATOR.get(near, near)
