"""Read which devices a plugin offers, and under which names, from the options of its command."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cri_proxy.errors import COMMAND_LINE, ConfigError
from cri_proxy.inventory.health_source import NO_HEALTH, HealthSource
from cri_proxy.kubelet.device_plugin.sources import PluginSources
from policies.devices import DEVICE_TYPES, WHOLE_DEVICES, DeviceOffer, offer_of

PLUGIN_DIRECTORY: Final = Path("/var/lib/kubelet/device-plugins")
DOMAIN: Final = "cri-proxy.io"
"""Of the names of resources that are not given: so that no vendor's plugin loses its own to this one."""

_MAX_NAME: Final = 63
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME: Final = re.compile(rf"({_LABEL}(?:\.{_LABEL})*)/([A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)", re.ASCII)


@dataclass(frozen=True, slots=True)
class PluginResource:
    """A type of devices under the name of its resource. ``is_named``: the operator gave the name.

    A resource that is named is registered even while it has no device; others once they have one.
    """

    kind: str
    name: str
    offer: DeviceOffer = WHOLE_DEVICES
    is_named: bool = False

    @property
    def endpoint(self) -> str:
        """The name of its socket in the plugin directory."""
        return f"cri-proxy-{self.kind}.sock"


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """The files to read, the resources to offer, and the directory that holds the kubelet's socket and ours.

    ``health`` is asked for the health of the devices.
    """

    sources: PluginSources
    resources: tuple[PluginResource, ...]
    directory: Path = PLUGIN_DIRECTORY
    health: HealthSource = NO_HEALTH


def plugin_resources(names: Sequence[str], forms: Sequence[str]) -> tuple[PluginResource, ...]:
    """Return the resources of ``TYPE=NAME`` and ``TYPE=FORM`` options; without names all types. Raises ConfigError.

    >>> [resource.name for resource in plugin_resources((), ())]
    ['cri-proxy.io/gpu', 'cri-proxy.io/rdma', 'cri-proxy.io/fpga', 'cri-proxy.io/nic']
    """
    named = _pairs("resource", names)
    offers = {}
    for kind, text in _pairs("offer", forms).items():
        if named and kind not in named:
            raise _wrong("offer", f"{kind}={text}", f"name the resource too: --resource {kind}=NAME")
        try:
            offers[kind] = offer_of(kind, text)
        except ValueError as error:
            raise _wrong("offer", f"{kind}={text}", str(error)) from None
    for kind, name in named.items():
        _require_extended(kind, name)
        if list(named.values()).count(name) > 1:
            raise _wrong(
                "resource", f"{kind}={name}", "another type has this name; the kubelet knows one plugin a name"
            )
    return tuple(
        PluginResource(kind, named.get(kind, f"{DOMAIN}/{kind}"), offers.get(kind, WHOLE_DEVICES), kind in named)
        for kind in DEVICE_TYPES
        if kind in named or not named
    )


def _pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        kind, is_pair, value = text.partition("=")
        if not is_pair or kind not in DEVICE_TYPES:
            raise _wrong(option, text, f"expected TYPE=VALUE with one of the types {', '.join(DEVICE_TYPES)}")
        if kind in found:
            raise _wrong(option, text, f"{kind} stands twice; a type is offered as one resource")
        found[kind] = value
    return found


def _require_extended(kind: str, name: str) -> None:
    """Raise ConfigError for a name that the kubelet refuses. Source: extended resources of Kubernetes."""
    match = _NAME.fullmatch(name)
    # A qualified name of Kubernetes: a DNS subdomain of 253 characters, a name of 63.
    if match is None or len(match[2]) > _MAX_NAME or len(match[1]) > 253:
        raise _wrong("resource", f"{kind}={name}", "expected a name with a domain, like example.com/gpu")
    # Quotas call resources "requests.NAME", so that no extended resource may begin so (IsExtendedResourceName).
    if match[1] == "kubernetes.io" or match[1].endswith(".kubernetes.io") or name.startswith("requests."):
        raise _wrong("resource", f"{kind}={name}", "the domain is that of Kubernetes itself; choose one of your own")


def _wrong(option: str, text: str, problem: str) -> ConfigError:
    return ConfigError(COMMAND_LINE, 0, f"--{option} {text}"[:200], problem)
