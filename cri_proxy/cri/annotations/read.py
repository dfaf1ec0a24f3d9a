"""Parse a pod's annotations for one container: preferences, affinities, device filter, origins, problems. Pure.

The rows are in ``annotations.table``, the forms and scopes of a key in ``annotations.forms``.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import TypeVar

from cri_proxy.cri.annotations import cpu_memory_rows as cpu_rows
from cri_proxy.cri.annotations import forms, resource_managers
from cri_proxy.cri.annotations import table as rows
from cri_proxy.cri.annotations.conflicts import conflicts, has_cold_start_kinds
from cri_proxy.cri.annotations.device_filter import KINDS, LocalityFilter
from cri_proxy.cri.annotations.device_resources import OF_KOORDINATOR, with_pod_annotations
from cri_proxy.cri.annotations.pod import PodAnnotations
from cri_proxy.cri.annotations.rules import AnnotationRules
from cri_proxy.cri.annotations.values import ReadText, by_container
from policies.base import Affinity, Request
from policies.device_requests import DeviceAsk, summed
from policies.preferences import Preferences

T = TypeVar("T")

# Before the key of an annotation in ``origins`` that is known and changes nothing.
WITHOUT_EFFECT = "without effect: "

_TO_THE_ROOT = 4  # levels below it: package, die, NUMA node, L3
_MAX_NAMED = 64  # containers of a pod whose devices are added up; each is looked for in all forms of the key
_ADDED_UP = frozenset({"affinities", "localities"})  # fields that several annotations make together
_NO_PREFERENCES = Preferences()
_NO_TEXTS: Mapping[str, ReadText] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Parsed:
    """The annotations of one container, read.

    ``origins`` name the annotation behind each field of ``Preferences`` and ``Request``; see also ``without_effect``.
    """

    preferences: Preferences = Preferences()
    affinities: tuple[Affinity, ...] = ()
    locality_filter: LocalityFilter = LocalityFilter()
    origins: tuple[tuple[str, str], ...] = ()
    problems: tuple[forms.AnnotationProblem, ...] = ()


def read_container(pod: PodAnnotations, container: str, namespace: str, rules: AnnotationRules) -> Parsed:
    """Read the annotations for this container. Never raises; malformed and restricted values are in ``problems``."""
    finder = forms.Finder(pod.texts, container, rules.domains, rules.refused_in(namespace))
    preferences = _with_pod_annotations(_preferences(finder), pod.texts)
    sources = finder.value(rows.TOPOLOGY_HINTS)
    locality_filter = LocalityFilter(
        sources=KINDS if sources is None else sources,
        allow=finder.value(rows.ALLOW_HINTS) or (),
        deny=finder.value(rows.DENY_HINTS) or (),
    )
    affinities = (*(finder.value(rows.AFFINITY) or ()), *(finder.value(rows.ANTI_AFFINITY) or ()))
    if preferences.prefer_reserved and (why := rules.untrusted(cpu_rows.PREFER_RESERVED.key, namespace)):
        finder.problems.append(finder.found.pop(cpu_rows.PREFER_RESERVED.key).problem(why))
        preferences = replace(preferences, prefer_reserved=None)
    if preferences.preserve_cpu and (why := rules.untrusted(cpu_rows.PRESERVE_CPU.key, namespace)):
        found = finder.found[cpu_rows.PRESERVE_CPU.key]
        finder.problems.append(found.problem(f"{why}: the container shares all CPUs that no container owns"))
        # It is not placed for its load either: it has all of the shared CPUs.
        preferences, locality_filter, affinities = _sharing_all(preferences), LocalityFilter(sources=frozenset()), ()
    problems = (*finder.problems, *conflicts(finder.found), *pod.problems)
    unused = resource_managers.OF_OTHERS.union(() if preferences.devices.requests else OF_KOORDINATOR)
    origins = (*_origins(finder, preferences), *_without_effect(pod.texts, container, rules.domains, unused))
    return Parsed(preferences, affinities, locality_filter, origins, problems)


def pod_devices(pod: PodAnnotations, namespace: str, rules: AnnotationRules) -> tuple[DeviceAsk, ...]:
    """Return the asks of the pod's containers for the node's devices: whole ones together, amounts each for itself.

    A value for the whole pod counts for one container, beside those that are named: how many there are, no annotation
    says. Neither does it say which are init containers, so these count too. Never raises.
    """
    counts = (DeviceAsk(counts=found) for found in _of_containers(pod, rows.DEVICE_REQUEST, namespace, rules))
    asked = (DeviceAsk(requests=found) for found in _of_containers(pod, rows.DEVICE_RESOURCES, namespace, rules))
    each = (with_pod_annotations(ask, pod.texts) for ask in asked)
    return tuple(filter(None, (DeviceAsk(summed(counts)), *each)))


def _of_containers(
    pod: PodAnnotations, row: forms.Annotation[T], namespace: str, rules: AnnotationRules
) -> Iterator[T]:
    """Yield the value of a row for the pod, then for each container that is named."""
    of_row = {key: read for key, read in pod.texts.items() if forms.key_in(key, rules.domains) in row.keys}
    of_all = {key: read for key, read in of_row.items() if "/container." not in key}
    named = {key.partition("/container.")[2] for key in of_row.keys() - of_all.keys()}
    named.update(name for read in of_all.values() for name in by_container(read.value) or ())
    for name in ("", *islice(sorted(named), _MAX_NAMED)):
        own = {key: read for key, read in of_row.items() if key.endswith(f"/container.{name}")} if name else {}
        found = forms.Finder(of_all | own, name, rules.domains, rules.refused_in(namespace)).value(row)
        if found is not None:
            yield found


def _sharing_all(preferences: Preferences) -> Preferences:
    """Return the preferences of a container that would not be pinned, but kept off CPUs that others own."""
    return Preferences(
        prefer_shared=True,
        levels_up=_TO_THE_ROOT,
        preserve_memory=True,
        resource_files=preferences.resource_files,
        notify=preferences.notify,
        devices=preferences.devices,
    )


def _preferences(finder: forms.Finder) -> Preferences:
    preferences = Preferences()
    for row in rows.TABLE:
        found = finder.find(row) if row.is_preference else None
        if found is not None:
            preferences = row.put(preferences, found.value)
    # Rules between annotations.
    required = _requires_isolated(finder.find(cpu_rows.PREFER_ISOLATED), finder.find(cpu_rows.REQUIRE_ISOLATED))
    threads = _narrower(finder.find(cpu_rows.HYPERTHREADS), finder.find(cpu_rows.HIDE_HYPERTHREADS))
    kinds = preferences.memory_kinds
    preferences = replace(
        preferences,
        prefer_isolated=True if required else preferences.prefer_isolated,
        require_isolated=required,
        threads=threads.value if threads else None,
        strict_memory=preferences.strict_memory and bool(kinds),
        cold_start_seconds=0 if kinds and not has_cold_start_kinds(kinds) else preferences.cold_start_seconds,
    )
    return _NO_PREFERENCES if preferences == _NO_PREFERENCES else preferences


def _with_pod_annotations(preferences: Preferences, texts: Mapping[str, ReadText]) -> Preferences:
    """Return the preferences with the annotations of the pod that say how its devices are allocated, as they are."""
    asked = with_pod_annotations(preferences.devices, texts)
    return preferences if asked is preferences.devices else replace(preferences, devices=asked)


def _requires_isolated(prefer: forms.FoundValue[bool] | None, require: forms.FoundValue[bool] | None) -> bool:
    """Decide between prefer and require: the narrower scope wins, on equal scope require (nri-plugins' rule)."""
    if require is None or not require.value:
        return False
    return prefer is None or require.scope <= prefer.scope


def _narrower(first: forms.FoundValue[T] | None, second: forms.FoundValue[T] | None) -> forms.FoundValue[T] | None:
    """Return the value of the narrower scope; the first where both are equal."""
    found = [f for f in (first, second) if f]
    return min(found, key=lambda f: f.scope) if found else None


def _origins(finder: forms.Finder, preferences: Preferences) -> Iterator[tuple[str, str]]:
    """Yield (field, the annotations behind it), sorted; several annotations only where they add up."""
    behind: dict[str, list[forms.FoundValue[object]]] = {}
    for row in rows.TABLE:
        for field in row.fields if row.key in finder.found else ():
            behind.setdefault(field, []).append(finder.found[row.key])
    if preferences.require_isolated:
        behind["prefer_isolated"] = behind["require_isolated"]
    for field, found in sorted(behind.items()):
        if field not in _ADDED_UP and forms.field_of(preferences, field) == forms.field_of(_NO_PREFERENCES, field):
            continue
        counting = found if field in _ADDED_UP else [min(found, key=lambda f: f.scope)]
        how = dict(preferences.devices.annotations) if field == "devices.requests" else {}
        yield field, " and ".join((*(f.full_key for f in counting), *how))


def without_refused(request: Request, rules: AnnotationRules, *, stay: Collection[str] = ()) -> tuple[Request, str]:
    """Return a request without the wishes that these rules no longer admit, and why ('' = all stay).

    For containers that were read by other rules. What devices count is not undone: that takes nothing from others.
    ``stay`` are fields whose wishes stay.
    """
    refused = rules.refused_in(request.pod.namespace)
    gone: dict[str, str] = {}
    for field, origin in request.origins if refused else ():
        for full_key in origin.split(" and "):
            why = next((why for key, why in refused.items() if _is_wish_of(key, field, full_key)), "")
            if why and field not in stay:
                gone[field] = f"{full_key}: {why}"
    if not gone:
        return request, ""
    preferences = request.preferences
    for field in gone:
        if field.partition(".")[0] in Preferences.__dataclass_fields__:
            preferences = forms.with_field(preferences, field, forms.field_of(_NO_PREFERENCES, field))
    preferences = _with_pod_annotations(preferences, _NO_TEXTS) if "devices.requests" in gone else preferences
    preferences = replace(preferences, strict_memory=preferences.strict_memory and bool(preferences.memory_kinds))
    stripped = replace(
        request,
        preferences=preferences,
        affinities=() if "affinities" in gone else request.affinities,
        origins=tuple((field, origin) for field, origin in request.origins if field not in gone),
    )
    return stripped, "; ".join(sorted(set(gone.values())))


def _is_wish_of(key: str, field: str, full_key: str) -> bool:
    """Whether a field (not that of devices) came from an annotation of this key, in whatever domain it was read."""
    prefix, _, name = full_key.partition("/")
    spellings = (spelling for row in rows.TABLE if row.stands_for == key for spelling in row.keys)
    return field != "localities" and any(name == s or prefix.startswith(f"{s}.") for s in spellings)


def without_effect(origins: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the annotations among these origins that are known and change nothing.

    >>> without_effect([("affinities", "a/affinity"), (WITHOUT_EFFECT, "cri-proxy.io/rdtclass")])
    ('cri-proxy.io/rdtclass',)
    """
    return tuple(full_key for field, full_key in origins if field.startswith(WITHOUT_EFFECT))


def _without_effect(
    texts: Mapping[str, ReadText], container: str, domains: Sequence[str], unused: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield the known keys that change nothing; ``unused`` are full keys that have no effect on this container."""
    for full_key, read in texts.items():
        key = forms.key_in(full_key, domains)
        fields = resource_managers.FIELDS_OF_PEERS
        of_peers = key in resource_managers.OF_PEERS and forms.is_about(full_key, read, container, fields)
        if of_peers or full_key in unused or full_key == resource_managers.CPU_SHARED + container:
            yield f"{WITHOUT_EFFECT}{full_key}", full_key
