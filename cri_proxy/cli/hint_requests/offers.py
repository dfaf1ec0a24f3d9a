"""The hints of a provider as documents have them: a list, or null for no preference."""

from collections.abc import Iterator
from typing import Final

from cri_proxy.cli.render.columns import paragraph
from cri_proxy.yaml_fields import YamlField
from policies.hints import Hint, Hints
from sysfs.cpuset import NodeSet
from sysfs.documents.forms import TRUTH, each, form, node_number, or_none
from sysfs.documents.table import KeyRow, Table

_SHOWN_SETS: Final = 16
_NO_NODES: Final = "a hint without nodes: give a list, or null for any node"
_NO_PREFERENCE: Final = "a hint without preferred: give true or false"


def _nodes(field: YamlField, what: str) -> int:
    """Return the mask of nodes, be they of the machine or not."""
    return NodeSet.of(item.parsed(what, node_number) for item in field.items(what)).mask


ANY_NODES: Final = or_none(form(_nodes, lambda mask: list(NodeSet(mask))))
HINT: Final = Table(
    Hint,
    KeyRow("nodes", ANY_NODES, "a list; null: any node", _NO_NODES, takes_null=True),
    KeyRow("preferred", TRUTH, "whether no fewer nodes could serve it", _NO_PREFERENCE),
)
HINTS: Final = or_none(each(HINT))


def set_lines(hints: Hints) -> Iterator[str]:
    """Yield the node sets of hints for people: the preferred ones, then the others."""
    for label, is_preferred in (("preferred", True), ("other", False)):
        sets = [f"{{{NodeSet(hint.nodes or 0)}}}" for hint in hints or () if hint.preferred is is_preferred]
        more = f" and {len(sets) - _SHOWN_SETS} more (-o json lists them)" if len(sets) > _SHOWN_SETS else ""
        yield from paragraph(" ".join(sets[:_SHOWN_SETS]) + more, " " * 13, first=f"  {label:<9}  ") if sets else ()
