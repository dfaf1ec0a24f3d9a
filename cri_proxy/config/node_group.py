"""Read a node's group, which chooses a configuration, from a label: in a Node object, a downward API file. Pure.

The labels of peers count as ours do: `nri-plugins configuration <https://containers.github.io/nri-plugins>`_.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from cri_proxy import bounded_yaml
from cri_proxy.bounded_yaml import Dialect, Scalar, Tree, YamlError, parse_tree, tree_at, word_at
from cri_proxy.config.addresses import optional_name

NODE_KIND: Final = "Node"
# Ours, nri-plugins', its former one, cri-resource-manager's; the first that is there counts.
GROUP_LABELS: Final = (
    "cri-proxy.io/group",
    "config.nri/group",
    "resource-policy.nri.io/group",
    "cri-resource-manager.intel.com/group",
)
EXPECTED: Final = (
    "a group's name (letters, digits, '-', '_' and '.'), labels as the downward API writes them, or a Node"
)
# A line of the downward API's ``metadata.labels``; values are quoted, and a label's has nothing to escape.
_LABEL_LINE: Final = re.compile(r'([^\s="]+)="([^"\\]*)"', re.ASCII)
# A Node with its status, which lists images and volumes, is within these.
_DIALECT: Final = Dialect(max_bytes=1 << 20, max_depth=32, max_nodes=100_000, has_unique_keys=False)


def group_of_labels(labels: Mapping[str, str]) -> str:
    """Return the group in a Node's labels: the first of GROUP_LABELS that is there; '' for none. Raises ValueError.

    >>> group_of_labels({"config.nri/group": "batch", "cri-resource-manager.intel.com/group": "old"})
    'batch'
    """
    for key in GROUP_LABELS:
        if value := labels.get(key, ""):
            try:
                return optional_name(value)
            except ValueError as error:
                raise ValueError(f"label {key}: {error}") from None
    return ""


def group_of_node(objects: Iterable[Tree], node_name: str) -> str:
    """Return the group in the labels of the Node with this name; '' where there is none, or no valid one."""
    for each in objects:
        if node_name and word_at(each, "kind") == NODE_KIND and word_at(each, "metadata", "name") == node_name:
            with suppress(ValueError):
                return _group_of(each)
    return ""


def group_in(text: str) -> str:
    r"""Return the group in a file: its name alone, the labels of a pod, or a Node (YAML or JSON); '' for none.

    Raises ValueError, without the text.

    >>> group_in('app="agent"\nconfig.nri/group="realtime"\n')
    'realtime'
    """
    words = text.strip()
    lines = [_LABEL_LINE.fullmatch(line) for line in words.splitlines()]
    try:
        if lines and all(lines):
            return group_of_labels({match[1]: match[2] for match in lines if match})
        node = parse_tree(text, _DIALECT)
        return _group_of(node) if word_at(node, "kind") == NODE_KIND else optional_name(words)
    except (ValueError, YamlError):
        raise ValueError(f"expected {EXPECTED}") from None


def _group_of(node: Tree | None) -> str:
    labels = tree_at(node, "metadata", "labels")
    items = labels.items if isinstance(labels, bounded_yaml.Mapping) else ()
    return group_of_labels({item.key: item.value.text for item in items if isinstance(item.value, Scalar)})
