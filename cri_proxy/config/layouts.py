"""Parse configuration YAML; turn ConfigMap, cri-resource-manager and nri-plugins layouts into ours; file precedence.

The objects of nri-plugins are TopologyAwarePolicy, BalloonsPolicy and TemplatePolicy. Texts are untrusted: their size
and depth are bounded.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from cri_proxy.bounded_yaml import Dialect, Item, Listing, Mapping, Scalar, Tree, YamlError, parse_documents, word_at
from cri_proxy.config.node_group import NODE_KIND, group_of_node
from cri_proxy.errors import ConfigError

# A ConfigMap cannot hold more than 1 MiB (Kubernetes documentation, ConfigMap).
MAX_BYTES = 1 << 20
_DIALECT = Dialect(MAX_BYTES, max_depth=16, max_nodes=200_000, has_unique_keys=True)
_CONFIG_MAP_KEYS = frozenset({"apiversion", "kind", "metadata", "immutable", "data"})
# Sections and policies of cri-resource-manager that have no effect here; its users may keep them in the file.
_FOREIGN_SECTIONS = frozenset(
    {"logger", "dump", "instrumentation", "resource-manager", "rdt", "blockio", "cpu", "agent"}
)
_FOREIGN_POLICIES = frozenset(
    {"none", "static", "static-plus", "static-pools", "podpools", "balloons", "dynamic-pools", "memtier"}
)
# The objects of nri-plugins: their spec holds the policy's options directly, and sections without effect here.
_POLICY_OBJECTS = ("TopologyAwarePolicy", "BalloonsPolicy", "TemplatePolicy")
_OBJECTS = f"{', '.join(_POLICY_OBJECTS[:-1])} or {_POLICY_OBJECTS[-1]}"
_KINDS = frozenset({"", "ConfigMap", *_POLICY_OBJECTS})
# The ConfigMaps of cri-resource-manager, one for each node, group and default, have a prefix (``cri-resmgr-config.``).
_LAYER_OF_CONFIG_MAP = re.compile(r"[^.]+\.((?:node|group)\..+|default)")
_POLICY_OBJECT_KEYS = frozenset({"apiversion", "kind", "metadata", "spec", "status"})
_OF_ALL_POLICIES = frozenset({"availableresources", "reservedresources"})
_OF_BALLOONS = frozenset({"pincpu", "pinmemory", "reservedpoolnamespaces"})
_FOREIGN_SPEC = frozenset(
    {
        "agent", "control", "controllableinterrupts", "cpuclasses", "defaultexclusivecpuclass", "dra",
        "instrumentation", "log", "namespaceschedulingclasses", "podqosschedulingclasses",
        "reservedpoolcpuclass", "schedulingclasses", "sharedpoolcpuclass",
    }
)  # fmt: skip
# How many of the names found an error lists.
_SHOWN = 8
_RENAMED = {"active": "policy", "topology-aware": "topologyAware"}


@dataclass(frozen=True, slots=True)
class Normalized:
    """A configuration in cri-proxy's own layout; ``warnings`` name what a conversion left out, one sentence each."""

    items: tuple[Item, ...]
    warnings: tuple[str, ...] = ()


def file_names(node_name: str, node_group: str) -> tuple[str, ...]:
    """Return the files that a configuration directory (or a ConfigMap's data) may hold; the first that exists applies.

    Names without ``.yaml`` are those of cri-resource-manager's ConfigMaps after their prefix.

    >>> file_names("worker-1", "")
    ('cri-proxy.yaml', 'node.worker-1.yaml', 'node.worker-1', 'default.yaml', 'default')
    """
    node = (f"node.{node_name}",) if node_name else ()
    group = (f"group.{node_group}",) if node_group else ()
    layers = (*node, *group, "default")
    return ("cri-proxy.yaml", *(name for layer in layers for name in (f"{layer}.yaml", layer)))


def is_whole(name: str) -> bool:
    """Return whether a file, or a key of a ConfigMap, has the name of a whole configuration, not of a section."""
    return name.endswith(".yaml") or name.startswith(("node.", "group.")) or name == "default"


def layers(trees: Sequence[Tree]) -> tuple[str, ...]:
    """Return for which nodes and groups a text has a configuration each: node.NAME, group.NAME, default."""
    objects = [each for tree in trees for each in _listed(tree) if isinstance(each, Mapping)]
    names = [layer for each in objects if (layer := _layer(each))]
    maps = [data for each in objects if isinstance(data := each.get("data"), Mapping)]
    names += [item.key.removesuffix(".yaml") for data in maps for item in data.items if is_whole(item.key)]
    return tuple(dict.fromkeys(names))


def config_objects(trees: Sequence[Tree]) -> Iterator[Tree]:
    """Yield the objects of a text: its documents, and those of its Lists."""
    for tree in trees:
        yield from _listed(tree)


def missing(names: Sequence[str], found: Sequence[str]) -> str:
    """Return the problem that none of these files was found, leaving out the rarer names."""
    some = f"; found: {', '.join(found[:_SHOWN])}{' ...' * (len(found) > _SHOWN)}" if found else ""
    return f"holds none of {', '.join(name for name in names if name.endswith('.yaml'))}: put one of them there{some}"


def config_trees(text: str, path: str, first_line: int = 1) -> tuple[Tree, ...]:
    """Return the documents of a configuration's text. Raises ConfigError with path and line."""
    try:
        return tuple(parse_documents(text, _DIALECT, first_line))
    except YamlError as error:
        raise ConfigError(path, error.line, error.key, error.problem) from error


def names_for(trees: Sequence[Tree], node_name: str, node_group: str) -> tuple[str, ...]:
    """Return ``file_names`` for this node; without ``node_group`` the label of the Node in the text names the group."""
    objects = list(config_objects(trees))
    is_beside = len(objects) > 1 and not node_group
    return file_names(node_name, group_of_node(objects, node_name) if is_beside else node_group)


def normalize(trees: Sequence[Tree], path: str, names: Sequence[str] = ()) -> Normalized:
    """Return the options of a text in any layout; ``names`` as from ``names_for``. Raises ConfigError.

    Of several objects, in documents or a List, the one of this node counts, else of its group, else the default; others
    are passed over. A text without any object of a known kind is an error, and so is a second document without a kind.
    """
    objects = list(config_objects(trees))
    if not objects:
        return Normalized(())
    # Stable: of two that rank alike the first in the text counts.
    tree, *others = sorted(objects, key=partial(_order, names=names)) if len(objects) > 1 else objects
    if not isinstance(tree, Mapping):
        raise ConfigError(path, tree.line, "", "expected a mapping of options")
    kind = word_at(tree, "kind")
    if not kind:
        second = next((other for other in others if not word_at(other, "kind")), None)
        if second is not None:
            raise ConfigError(path, second.line, "", "another configuration begins here: keep one of the two")
        found = _from_sections(tree.items)
    elif kind in _KINDS:
        alike = [_layer(other) for other in others if _are_layers(tree, other)]
        if alike and (name := _layer(tree)) not in names:
            raise ConfigError(path, tree.line, "metadata.name", missing(names, [name, *alike]))
        is_map = kind == "ConfigMap"
        found = _from_config_map(tree, path, names) if is_map else _from_policy_object(tree, path, kind)
    else:
        raise ConfigError(path, tree.line, "kind", f"expected ConfigMap, {_OBJECTS}, got {kind!r}")
    return replace(found, warnings=(*found.warnings, *_passed_over(tree, others, names)))


def _passed_over(chosen: Tree, others: Sequence[Tree], names: Sequence[str]) -> Iterator[str]:
    """Yield what of the other objects has no effect; layers of the same kind are for other nodes."""
    kinds = {word_at(other, "kind") for other in others if not _names_group(other, names)}
    yield from (f"kind {kind}: without effect here" for kind in sorted(kinds - _KINDS))
    for other in others:
        if word_at(other, "kind") in _KINDS and not _are_layers(chosen, other):
            yield f"{_title(other)}: passed over, {_title(chosen)} counts"


def _are_layers(one: Tree, other: Tree) -> bool:
    """Return whether two objects of a kind are configurations for a node, a group or by default."""
    is_alike = word_at(one, "kind") == word_at(other, "kind")
    return is_alike and bool(_layer(one) and _layer(other))


def _layer(tree: Tree) -> str:
    """Return for whom this object is: node.NAME, group.NAME, default, another name of a policy object; '' for none."""
    kind, name = word_at(tree, "kind"), word_at(tree, "metadata", "name")
    if kind == "ConfigMap":
        match = _LAYER_OF_CONFIG_MAP.fullmatch(name)
        return match[1] if match else ""
    return (name or "default") if kind in _POLICY_OBJECTS else ""


def _names_group(tree: Tree, names: Sequence[str]) -> bool:
    """Return whether this object is this node, and its label the group that counts."""
    name = word_at(tree, "metadata", "name")
    is_ours = word_at(tree, "kind") == NODE_KIND and f"node.{name}" in names
    return is_ours and f"group.{group_of_node((tree,), name)}" in names


def _title(tree: Tree) -> str:
    return f"{word_at(tree, 'kind')} {word_at(tree, 'metadata', 'name')}".strip() or "the document without a kind"


def _listed(tree: Tree) -> Iterator[Tree]:
    """Yield the objects of a List, in lists inside it too; anything else as it is."""
    items = tree.get("items") if isinstance(tree, Mapping) and word_at(tree, "kind").endswith("List") else None
    if not isinstance(items, Listing):
        yield tree
        return
    for item in items.items:
        yield from _listed(item)


def _order(tree: Tree, names: Sequence[str]) -> tuple[int, int]:
    """Return the place of an object among several: what is ours by its kind, then by its name.

    nri-plugins names its objects as cri-resource-manager names the keys of a ConfigMap: node.NAME, group.NAME, default.
    """
    kinds = ("", _POLICY_OBJECTS[0], "ConfigMap", *_POLICY_OBJECTS[1:])
    kind, layer = word_at(tree, "kind"), _layer(tree)
    return (
        kinds.index(kind) if kind in kinds else len(kinds),
        names.index(layer) if layer in names else len(names),
    )


def _from_config_map(tree: Mapping, path: str, names: Sequence[str]) -> Normalized:
    """Return the file in ``data`` that applies; without any, its keys are sections (cri-resource-manager)."""
    data = _inside(tree, "data", _CONFIG_MAP_KEYS, path, "ConfigMap that is read here")
    if data is None:
        return Normalized(())
    for name in names:
        inside = next((item for item in data.items if item.key == name), None)
        if inside is not None:
            return normalize(_parsed(inside, path), path)
    # Configurations of other nodes and groups: none is for this one, and their keys are no sections.
    if any(is_whole(item.key) for item in data.items):
        raise ConfigError(path, data.line, "data", missing(names, [item.key for item in data.items]))
    return _from_sections(tuple(_section(item, path) for item in data.items))


def _inside(tree: Mapping, key: str, known: frozenset[str], path: str, what: str) -> Mapping | None:
    """Return the mapping under this key, None for none. Raises ConfigError for a key that is not known."""
    for item in tree.items:
        if item.key.casefold() not in known:
            raise ConfigError(path, item.line, item.key, f"is no key of a {what}: use {key}")
    inside = tree.get(key)
    if inside is None or (isinstance(inside, Scalar) and inside.is_null):
        return None
    if not isinstance(inside, Mapping):
        raise ConfigError(path, inside.line, key, "expected a mapping")
    return inside


def _from_policy_object(tree: Mapping, path: str, kind: str) -> Normalized:
    """Return the options in the ``spec`` of an object of nri-plugins; of balloons those that the policies share."""
    spec = _inside(tree, "spec", _POLICY_OBJECT_KEYS, path, kind)
    if spec is None:
        return Normalized(())
    ours = [item for item in spec.items if _has_effect(item.key.casefold(), kind)]
    foreign = [item.key for item in spec.items if not _has_effect(item.key.casefold(), kind)]
    of_all = tuple(item for item in ours if item.key.casefold() in _OF_ALL_POLICIES)
    own = tuple(item for item in ours if item.key.casefold() not in _OF_ALL_POLICIES)
    group = (Item(_RENAMED["topology-aware"], spec.line, Mapping(own, spec.line)),) if own else ()
    return Normalized(
        (*of_all, *group), tuple(f"spec.{key}: a section of nri-plugins, without effect here" for key in foreign)
    )


def _has_effect(key: str, kind: str) -> bool:
    """Return whether this key in the spec of an object of nri-plugins is read, or an error where it is not known."""
    return key not in _FOREIGN_SPEC if kind == _POLICY_OBJECTS[0] else key in _OF_ALL_POLICIES | _OF_BALLOONS


def _parsed(item: Item, path: str) -> tuple[Tree, ...]:
    """Return the value of a ConfigMap's key, which is YAML in a string."""
    if not isinstance(item.value, Scalar):
        raise ConfigError(path, item.line, f"data.{item.key}", "expected a string: a ConfigMap holds nothing else")
    return config_trees(item.value.text, path, item.value.text_line)


def _section(item: Item, path: str) -> Item:
    value, *others = _parsed(item, path) or (Scalar("", item.line, item.line, "null"),)
    if others:
        raise ConfigError(path, others[0].line, f"data.{item.key}", "another document begins here: a section has one")
    return Item(item.key, item.line, value)


def _from_sections(items: tuple[Item, ...]) -> Normalized:
    """Return our own layout as it is; rename keys of cri-resource-manager's, which has a mapping under ``policy``."""
    policy = next((i for i in items if i.key.casefold() == "policy" and isinstance(i.value, Mapping)), None)
    if policy is None or not isinstance(policy.value, Mapping):
        return Normalized(items)
    others = [item for item in items if item is not policy]
    dropped = [item.key for item in others if item.key.casefold() in _FOREIGN_SECTIONS]
    dropped += [f"policy.{item.key}" for item in policy.value.items if item.key.casefold() in _FOREIGN_POLICIES]
    active = next((item.key for item in policy.value.items if _is_foreign_choice(item)), "")
    chosen = (f"policy.{active}: a policy of cri-resource-manager, without effect here",) if active else ()
    kept = [item for item in others if item.key.casefold() not in _FOREIGN_SECTIONS]
    return Normalized(
        (*_renamed(policy.value), *kept),
        (*chosen, *(f"{key}: a section of cri-resource-manager, without effect here" for key in dropped)),
    )


def _is_foreign_choice(item: Item) -> bool:
    """Whether this chooses a policy that cri-resource-manager has and cri-proxy does not."""
    chosen = item.value.text.casefold() if isinstance(item.value, Scalar) else ""
    return item.key.casefold() == "active" and chosen in _FOREIGN_POLICIES - {"none"}


def _renamed(policy: Mapping) -> Iterator[Item]:
    for item in policy.items:
        key = item.key.casefold()
        if key not in _FOREIGN_POLICIES and not _is_foreign_choice(item):
            yield Item(_RENAMED.get(key, item.key), item.line, item.value)
