"""``AnnotationRules``: the domains that are read, and the keys that count in some namespaces only. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from policies.glob import is_like
from sysfs.known_words import did_you_mean
from sysfs.text import some

OPTION: Final = "restrictedAnnotations"
ITEM_FIELDS: Final = ("keys", "namespaces")
MAX_NAMESPACES: Final = 256  # of one entry: each is matched when a container is created
_SHOWN: Final = 8  # namespaces in a sentence

DOMAINS: Final = ("cri-proxy.io", "resource-policy.nri.io", "cri-resource-manager.intel.com")
_FORM: Final = re.compile(r"keys=(\S*) namespaces=(\S*)")
# A namespace is a DNS label (RFC 1123); beside its characters those of a glob.
_NAMESPACE: Final = re.compile(r"[a-z0-9*?!^\[\]-]{1,128}")


@dataclass(frozen=True, slots=True)
class Restriction:
    """These keys count only in namespaces that one of these globs matches; without any glob in none."""

    keys: tuple[str, ...]
    namespaces: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"keys={','.join(self.keys)} namespaces={','.join(self.namespaces)}"

    def admits(self, namespace: str) -> bool:
        """Whether the keys count in this namespace."""
        return any(is_like(namespace, glob) for glob in self.namespaces)


def parse_restriction(text: str) -> Restriction:
    """Read an entry of the option, as ``str`` writes it. Raises ValueError.

    A former name, or another spelling of the same wish, stands for the key that it is read as.

    >>> str(parse_restriction("keys=cpu.preserve,hide-hyperthreads namespaces=kube-system,ci-*"))
    'keys=cpu.preserve,hyperthreads namespaces=kube-system,ci-*'
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"expected a mapping of {' and '.join(ITEM_FIELDS)}, got {text!r}")
    keys, namespaces = (tuple(filter(None, part.split(","))) for part in match.groups())
    if not keys:
        raise ValueError("an entry needs at least one of keys")
    if len(namespaces) > MAX_NAMESPACES:
        raise ValueError(f"expected at most {MAX_NAMESPACES} namespaces, got {len(namespaces)}")
    for glob in namespaces:
        if not _NAMESPACE.fullmatch(glob):
            raise ValueError(f"expected the name of a namespace or a glob for names, got {glob!r}")
    return Restriction(tuple(dict.fromkeys(map(_known_key, keys))), namespaces)


def _known_key(key: str) -> str:
    """Return the key of the table that this one stands for. Raises ValueError."""
    from cri_proxy.cri.annotations.foreign_rows import FOREIGN_TABLE  # loaded only where keys are restricted
    from cri_proxy.cri.annotations.table import TABLE

    stands_for = {name: row.stands_for for row in TABLE for name in row.keys}
    stands_for |= {row.key: row.stands_for for row in FOREIGN_TABLE if row.takes}
    if key not in stands_for:
        known = did_you_mean(key, stands_for, "docs/reference/annotations.md lists them, without a domain")
        raise ValueError(f"no annotation has the key {key!r:.60}; {known}")
    return stands_for[key]


@dataclass(frozen=True, slots=True)
class AnnotationRules:
    """The domains whose annotations are read, in order of precedence, and what is restricted.

    ``trusted`` are the namespaces (globs) whose pods may run on CPUs of others although no restriction names the key.
    """

    domains: tuple[str, ...] = DOMAINS
    restricted: tuple[Restriction, ...] = ()
    trusted: tuple[str, ...] = ("*",)

    def refused_in(self, namespace: str) -> Mapping[str, str]:
        """Return the keys that do not count in this namespace, each with the reason.

        A key in several entries counts where all of them admit it.
        """
        return _refused_in(self.restricted, namespace) if self.restricted else _NOTHING

    def untrusted(self, key: str, namespace: str) -> str:
        """Return why a key that lets a pod run on CPUs of others does not count here to its full extent; '' = it does.

        Where a restriction names the key, the operator has decided.
        """
        named = any(key in entry.keys for entry in self.restricted)
        if named or any(is_like(namespace, glob) for glob in self.trusted):
            return ""
        return f"it counts in {some(self.trusted, _SHOWN)} and where {OPTION} names it, not in {namespace}"


_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@lru_cache(maxsize=128)  # the namespaces of a node are few, and each create asks
def _refused_in(restricted: tuple[Restriction, ...], namespace: str) -> Mapping[str, str]:
    refused = {
        key: f"{OPTION} lets it count {_where(entry)}, not in {namespace}"
        for entry in restricted
        if not entry.admits(namespace)
        for key in entry.keys
    }
    return MappingProxyType(refused)


def _where(entry: Restriction) -> str:
    if not entry.namespaces:
        return "in no namespace"
    return f"in {some(entry.namespaces, _SHOWN)} only"
