"""List Nodes by label: their labels, addresses, and the condition that ``cri-proxy exporter`` keeps.

Source: Node and NodeList of core/v1; https://kubernetes.io/docs/concepts/overview/working-with-objects/labels.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from cri_proxy.errors import CriProxyError
from cri_proxy.foreign_text import admit
from cri_proxy.kube_api.client import ApiClient, Plain

NODES: Final = "/api/v1/nodes"
CONDITION: Final = "CriProxyReady"
REJECTED: Final = "ConfigurationRejected"
"""The reason of the condition where the last configuration was rejected."""
_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64}) ")
_PAGE: Final = "200"
"""So many Nodes, of at most 20 KB or so each, are within the limit of an answer."""
_MOST_PAGES: Final = 100
_FROM_CACHE: Final = {"resourceVersion": "0"}
"""Answered from the server's memory, as for the kubelets' own questions: it may be late, and etcd is not read."""
_METADATA_ONLY: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


@dataclass(frozen=True, slots=True)
class ReportedState:
    """The condition ``CriProxyReady`` of a Node."""

    is_ready: bool
    reason: str
    message: str

    @property
    def digest(self) -> str:
        """The SHA-256 of the configuration file that is in force, or rejected; '' where the message has none."""
        found = _DIGEST.match(self.message)
        return found[1] if found else ""


def with_digest(digest: str, text: str) -> str:
    """Return the message of a condition about the configuration with this SHA-256, which may be ''.

    >>> ReportedState(True, "Ready", with_digest("0" * 64, "is in force")).digest == "0" * 64
    True
    """
    return f"sha256:{digest} {text}" if digest else text


@dataclass(frozen=True, slots=True)
class ListedNode:
    """A Node. ``addresses`` are pairs of type and address; ``reported`` is None without the condition."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    addresses: tuple[tuple[str, str], ...] = ()
    reported: ReportedState | None = None


async def list_nodes(api: ApiClient, selector: str, *, from_cache: bool = False) -> tuple[ListedNode, ...]:
    """Return the Nodes that a label selector chooses, by name. Raises as ``ApiClient.get`` does, and CriProxyError.

    ``from_cache``: one answer from the server's memory, for few Nodes that many ask for; it may be late. Else pages of
    what is stored.
    """
    query = {"labelSelector": selector, **(_FROM_CACHE if from_cache else {"limit": _PAGE})}
    found: list[ListedNode] = []
    for _ in range(_MOST_PAGES):
        page = await api.get(NODES, query) or {}
        found += nodes_in_list(page)
        token = _mapping(page.get("metadata")).get("continue")
        if not token:
            return tuple(sorted(found, key=lambda node: node.name))
        query["continue"] = str(token)
    raise CriProxyError(f"{selector}: more than {_MOST_PAGES} pages of {_PAGE} Nodes")


async def labels_of(api: ApiClient, name: str) -> Mapping[str, str]:
    """Return the labels of a Node, from the server's memory, since every node asks again and again.

    Raises as ``ApiClient.get`` does, and CriProxyError where there is none.
    """
    found = await api.get(f"{NODES}/{name}", _FROM_CACHE, accept=_METADATA_ONLY)
    if found is None:
        raise CriProxyError(f"the API server knows no Node {name!r:.80}")
    return _words(_mapping(found.get("metadata")).get("labels"))


def nodes_in_list(plain: Plain) -> tuple[ListedNode, ...]:
    """Return the Nodes of a NodeList, or of a List that kubectl prints, by name. Raises CriProxyError."""
    items = plain.get("items")
    if not isinstance(items, list):
        raise CriProxyError(f"expected a list of Nodes, got {admit(str(plain.get('kind') or 'no object of a kind'))}")
    return tuple(sorted((_node(_mapping(each)) for each in items), key=lambda node: node.name))


def _node(plain: Plain) -> ListedNode:
    metadata, status = _mapping(plain.get("metadata")), _mapping(plain.get("status"))
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        raise CriProxyError("expected Nodes, got an object without a name")
    addresses = ((str(each.get("type", "")), str(each.get("address", ""))) for each in _listed(status.get("addresses")))
    reported = next((each for each in _listed(status.get("conditions")) if each.get("type") == CONDITION), None)
    return ListedNode(
        admit(name),
        _words(metadata.get("labels")),
        tuple(addresses),
        None if reported is None else _state(reported),
    )


def _state(condition: Plain) -> ReportedState:
    words = (str(condition.get(key) or "") for key in ("reason", "message"))
    return ReportedState(condition.get("status") == "True", *words)


def _mapping(value: object) -> Plain:
    return value if isinstance(value, Mapping) else {}


def _listed(value: object) -> Iterator[Plain]:
    yield from (each for each in (value if isinstance(value, list) else ()) if isinstance(each, Mapping))


def _words(value: object) -> Mapping[str, str]:
    return {str(key): str(word) for key, word in _mapping(value).items()}
