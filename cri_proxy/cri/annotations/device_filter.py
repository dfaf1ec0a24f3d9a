"""Parse the ``topologyhints`` annotations into a filter of the devices and mounts whose locality counts. Pure.

Annotations ``topologyhints`` (kinds of sources), ``deny.topologyhints`` and ``allow.topologyhints`` (paths). As in
nri-plugins a denied path counts if it is allowed as well, so that a pod can deny all and take a few.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from cri_proxy.cri.annotations.values import listed
from policies.glob import is_like

SourceKind = Literal["mounts", "devices", "pod-resources"]
KINDS: frozenset[SourceKind] = frozenset(get_args(SourceKind))
POD_RESOURCES = "podresapi:"  # before the name of a resource of the kubelet's pod-resources API
MAX_PATHS = 64
MAX_PATH_CHARS = 512
MAX_STARS = 16
PATH_FIELDS = frozenset({"type", "paths"})  # of the map form of a list of paths

# What a pod may write for a set of kinds; nri-plugins knows all but the last.
_WORDS: dict[str, frozenset[SourceKind]] = {
    **dict.fromkeys(("true", "all", "enabled"), KINDS),
    **dict.fromkeys(("false", "none", "disabled"), frozenset()),
    **dict.fromkeys(("devices", "devs"), frozenset({"devices"})),
    "mounts": frozenset({"mounts"}),
    **dict.fromkeys(("pod-resources", "podresources"), frozenset({"pod-resources"})),
}


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A beginning of paths, or a glob for whole paths in which only ``**`` crosses a slash."""

    text: str
    is_glob: bool = False

    def matches(self, path: str) -> bool:
        """Whether the pattern matches this path. In a resource's name a single star crosses slashes too."""
        if not self.is_glob:
            return path.startswith(self.text)
        return is_like(path, self.text, "" if path.startswith(POD_RESOURCES) else "/")


@dataclass(frozen=True, slots=True)
class LocalityFilter:
    """Which localities count: those of these kinds of sources, without denied paths that are not allowed as well."""

    sources: frozenset[SourceKind] = KINDS
    allow: tuple[PathPattern, ...] = ()
    deny: tuple[PathPattern, ...] = ()

    def takes(self, kind: SourceKind, path: str) -> bool:
        """Whether a locality from here counts.

        ``path`` is a path of the host, or, of kind ``pod-resources``, the resource's name (``podresapi:`` before it
        may be left out).

        >>> denied, allowed = (PathPattern("/"),), (PathPattern("/dev/dri"),)
        >>> LocalityFilter(allow=allowed, deny=denied).takes("devices", "/dev/dri/card0")
        True
        """
        if kind not in self.sources:
            return False
        if kind == "pod-resources" and not path.startswith(POD_RESOURCES):
            path = POD_RESOURCES + path
        return any(p.matches(path) for p in self.allow) or not any(p.matches(path) for p in self.deny)


def source_kinds(value: object) -> frozenset[SourceKind]:
    """Return the kinds of sources of a ``topologyhints`` annotation. Raises ValueError.

    >>> sorted(source_kinds("devices, mounts")), source_kinds(False)
    (['devices', 'mounts'], frozenset())
    """
    if isinstance(value, bool):
        return KINDS if value else frozenset()
    words = [word.lower() for word in listed(value, "true, false, or a list of mounts, devices and pod-resources")]
    unknown = [word for word in words if word not in _WORDS]
    if unknown:
        raise ValueError(f"{unknown[0]!r:.40} is none of mounts, devices, pod-resources, all and none")
    if len(words) > 1 and any(word in _WORDS and len(_WORDS[word]) != 1 for word in words):
        raise ValueError("all and none stand alone")
    return frozenset(kind for word in words for kind in _WORDS[word])


def path_patterns(value: object) -> tuple[PathPattern, ...]:
    """Return the paths of ``allow.topologyhints`` or ``deny.topologyhints``, in the order written. Raises ValueError.

    A list, in which what has one of ``*?[`` is a glob, or nri-plugins' map of ``type`` (prefix or glob) and ``paths``.
    """
    kind: object = None
    if isinstance(value, dict):
        unknown = sorted(str(key) for key in value if key not in PATH_FIELDS)
        if unknown or "paths" not in value:
            raise ValueError(f"expected a list of paths, or a map of {', '.join(sorted(PATH_FIELDS))}")
        kind, value = value.get("type", "prefix"), value["paths"]
        if kind not in ("prefix", "glob"):
            raise ValueError(f"the type of paths is prefix or glob, not {kind!r:.40}")
    paths = listed(value, "a list of paths")
    if len(paths) > MAX_PATHS:
        raise ValueError(f"more than {MAX_PATHS} paths")
    return tuple(_pattern(path, kind) for path in paths)


def _pattern(path: str, kind: object) -> PathPattern:
    if not path.startswith(("/", "*", POD_RESOURCES)) or len(path) > MAX_PATH_CHARS or path.count("*") > MAX_STARS:
        raise ValueError(
            f"{path!r:.40} is no absolute path or {POD_RESOURCES}NAME of at most {MAX_PATH_CHARS} characters "
            f"and {MAX_STARS} stars"
        )
    return PathPattern(path, is_glob=kind == "glob" or (kind is None and any(char in path for char in "*?[")))
