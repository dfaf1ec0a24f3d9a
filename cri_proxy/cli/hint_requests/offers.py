"""The hints of a provider as documents have them: a list, or null for no preference."""

from typing import Final

from cri_proxy.yaml_fields import YamlField
from policies.hints.model import Hint, Hints
from sysfs.cpuset import NodeSet
from sysfs.documents.forms import TRUTH, form, node_number
from sysfs.documents.table import KeyRow, Table


def _any_nodes(field: YamlField, what: str) -> int | None:
    """Return the mask of nodes, be they of the machine or not; None for any node."""
    if field.is_null:
        return None
    return NodeSet.of(item.parsed(what, node_number) for item in field.items(what)).mask


_ANY_NODES: Final = form(_any_nodes, lambda mask: None if mask is None else list(NodeSet(mask)))
_NO_NODES: Final = "a hint without nodes: give a list, or null for any node"
_NO_PREFERENCE: Final = "a hint without preferred: give true or false"
HINT: Final = Table(
    Hint,
    KeyRow("nodes", _ANY_NODES, "a list; null: any node", _NO_NODES, takes_null=True),
    KeyRow("preferred", TRUTH, "whether no fewer nodes could serve it", _NO_PREFERENCE),
)


def _hints(field: YamlField, what: str) -> Hints:
    return None if field.is_null else tuple(HINT.read(item, what) for item in field.items(what))


def _written(hints: Hints) -> object:
    return None if hints is None else [HINT.write(hint) for hint in hints]


HINTS: Final = form(_hints, _written)
