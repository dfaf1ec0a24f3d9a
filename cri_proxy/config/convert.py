"""Write a peer's configuration as ours: the options that count, with a comment on each difference. Pure.

What counts is decided by the reader of configurations (``config.layouts``); here are the words for it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from cri_proxy import bounded_yaml
from cri_proxy.bounded_yaml import Item, Listing, Scalar, Tree
from cri_proxy.config.layouts import config_trees, layers, names_for, normalize
from cri_proxy.config.load import group_at, known_at, parse_config
from cri_proxy.config.option import Known
from cri_proxy.foreign_text import visible

_RESERVED: Final = "reservedResources.cpu"
# What an option does here that it does not do at the peers.
_OTHERWISE: Final[Mapping[str, str]] = MappingProxyType(
    {
        _RESERVED: "containers there that request more than is reserved use shared CPUs too",
        "topologyAware.PreferIsolatedCPUs": "containers of several CPUs get isolated ones where others are too few",
        "topologyAware.PreferSharedCPUs": "where it is false, a container of 2.5 CPUs gets two of its own",
        "topologyAware.UnlimitedBurstable": "best-effort containers have this width too",
    }
)
_POWER: Final = "cri-proxy changes no frequencies, idle states or interrupts: tuned and the kernel's command line do"
_CLASSES: Final = (
    "containerd itself handles the pods' classes of cache and block I/O (rdt_config_file, blockio_config_file)"
)
_SCHEDULING: Final = "CRI has no field for scheduling policies and priorities"
_OTHER_POLICY: Final = "topology-aware, or none, places containers here"
_LOG: Final = "see log.level and log.format"
_METRICS: Final = "metrics are at the address of http, /metrics"
_AGENT: Final = "cri-proxy config-agent copies a ConfigMap to the node"
# Why a key of a peer has no effect here.
REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("log", "logger", "dump"), _LOG),
        "instrumentation": _METRICS,
        "agent": _AGENT,
        "resource-manager": "its sockets are listen and runtimeEndpoint here",
        "dra": "CPUs that a DRA driver has chosen count without it: see claims",
        **dict.fromkeys(("rdt", "blockio", "control"), _CLASSES),
        **dict.fromkeys(("cpu", "controllableinterrupts", "cpuclasses", "defaultexclusivecpuclass"), _POWER),
        **dict.fromkeys(("reservedpoolcpuclass", "sharedpoolcpuclass", "idlecpuclass"), _POWER),
        **dict.fromkeys(("namespaceschedulingclasses", "podqosschedulingclasses", "schedulingclasses"), _SCHEDULING),
        **dict.fromkeys(("active", "none", "static", "static-plus", "static-pools", "podpools"), _OTHER_POLICY),
        **dict.fromkeys(("balloons", "dynamic-pools", "memtier"), _OTHER_POLICY),
        "balloontypes": "there are no balloons here: containers get CPUs by their requests, pods by annotations",
    }
)
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./*-]*", re.ASCII)
_NULLS: Final = frozenset({"null", "~", ""})


def convert(text: str, path: str, *, node_name: str = "", node_group: str = "") -> str:
    """Return the YAML of our configuration for this node, group or, without names, all. Raises ConfigError.

    ``path`` names the text in errors and in the first comment.
    """
    # For its errors: what cannot be read cannot be converted.
    parse_config(text, path, node_name=node_name, node_group=node_group)
    trees = config_trees(text.removeprefix("\ufeff"), path)
    names = names_for(trees, node_name, node_group)
    plain = normalize(trees, path, names)
    lines = [f"# From {path}. What is not set here has cri-proxy's default: docs/reference/options.md."]
    others = [name for name in layers(trees) if name != _chosen(trees, names)]
    if others:
        lines.append(f"# The file has more, for --node-name and --node-group: {', '.join(others)}.")
    lines += _options(plain.items, ())
    if plain.warnings:
        lines += ["", *(f"# {_with_reason(warning)}" for warning in plain.warnings)]
    return "\n".join(map(visible, lines))


def _chosen(trees: Sequence[Tree], names: Sequence[str]) -> str:
    """Return the name of the layer that counts; '' for none."""
    found = layers(trees)
    return next((name for name in names if name in found), "")


def _options(items: tuple[Item, ...], above: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of these items, with the keys as the model spells them."""
    indent = "  " * len(above)
    for item in items:
        known, group = known_at((*above, item.key)), group_at((*above, item.key))
        if isinstance(item.value, Scalar) and item.value.is_null:
            continue
        if known is not None:
            yield from _option(known, item, indent)
        elif group and isinstance(item.value, bounded_yaml.Mapping):
            yield f"{indent}{group[-1]}:"
            yield from _options(item.value.items, group)


def _option(known: Known, item: Item, indent: str) -> Iterator[str]:
    if known.key in _OTHERWISE:
        value = item.value.text if isinstance(item.value, Scalar) else ""
        core = "a quantity is kept on the lowest-numbered whole core, and "
        first = core if known.key == _RESERVED and "cpuset:" not in value else ""
        yield f"{indent}# Otherwise than there: {first}{_OTHERWISE[known.key]}."
    yield f"{indent}{known.path[-1]}: {_flow(item.value)}"


def _flow(tree: Tree) -> str:
    """Return a value in YAML's flow style."""
    match tree:
        case Scalar():
            is_plain = tree.is_null or (_PLAIN.fullmatch(tree.text) and tree.text.casefold() not in _NULLS)
            return (tree.text or "null") if is_plain else json.dumps(tree.text, ensure_ascii=False)
        case Listing():
            return f"[{', '.join(map(_flow, tree.items))}]"
    return f"{{{', '.join(f'{json.dumps(item.key)}: {_flow(item.value)}' for item in tree.items)}}}"


def _with_reason(warning: str) -> str:
    key = warning.partition(":")[0].rpartition(".")[2].casefold()
    return f"{warning}; {REASONS[key]}" if key in REASONS else warning
