"""The nodes of ``status --nodes``: lines of a file, Nodes as kubectl prints them, or a label at the API server."""

import argparse
import asyncio
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cri_proxy.errors import CommandFailed, CriProxyError
from cri_proxy.http.remote import DaemonUrl, read_url
from cri_proxy.kube_api.access import AccessError, access_of, kubeconfig_of
from cri_proxy.kube_api.client import ApiClient
from cri_proxy.kube_api.nodes import ListedNode, list_nodes, nodes_in_list

_MOST_NODES: Final = 5000
_MAX_LIST_BYTES: Final = 1 << 20
# A Node of a long-lived cluster with its images takes some 20 KB.
_MAX_JSON_BYTES: Final = 256 << 20
_PORT: Final = 8891
_ADDRESS_TYPE: Final = "InternalIP"
_SELECTOR: Final = re.compile(r"[^/\s][^\s]*=[^\s]*|.*[^=\s](\s+(not)?in\s*\(.*\)|!=).*|!.+")

NamedDaemons = tuple[tuple[str, DaemonUrl], ...]


def nodes_of(args: argparse.Namespace) -> NamedDaemons:
    """Return names and daemons of the value of --nodes: '-', a file, or a label. Raises CommandFailed."""
    value: str = args.nodes
    address_type, port = args.address_type or _ADDRESS_TYPE, args.port or _PORT
    if value == "-" or Path(value).exists():
        if args.kubeconfig is not None:
            raise CommandFailed(f"--kubeconfig has no effect without --nodes LABEL: {value} is read instead", 2)
        text = _text(value)
        if text.lstrip()[:1] == "{":
            return nodes_in_json(text, value, address_type, port)
        for option, given in (("--address-type", args.address_type), ("--port", args.port)):
            if given is not None:
                what = f"--nodes LABEL, or of Nodes that kubectl prints: {value} has lines with addresses"
                raise CommandFailed(f"{option} has no effect without {what}", 2)
        return nodes_in(text, value)
    if not _SELECTOR.fullmatch(value):
        raise CommandFailed(f"--nodes: no file {value}; a label is KEY=VALUE (KEY= for one without a value)", 2)
    return _daemons(_of_label(value, args.kubeconfig), f"--nodes {value}", address_type, port)


def nodes_in(text: str, file: str) -> NamedDaemons:
    """Return names and daemons of lines ``[NAME] URL``; '#' begins a comment. Raises CommandFailed with the line."""
    if len(text) >= _MAX_LIST_BYTES:
        raise CommandFailed(f"{file}: larger than {_MAX_LIST_BYTES} bytes", 2)
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) > 2:
            raise CommandFailed(f"{file}: line {number}: expected [NAME] https://HOST[:PORT]", 2)
        try:
            url = read_url(words[-1])
        except ValueError as error:
            raise CommandFailed(f"{file}: line {number}: {error}", 2) from None
        found.append((words[0] if len(words) == 2 else url.host, url))
    if not 0 < len(found) <= _MOST_NODES:
        raise CommandFailed(
            f"{file}: expected 1 to {_MOST_NODES} lines [NAME] https://HOST[:PORT], got {len(found)}", 2
        )
    return tuple(found)


def nodes_in_json(text: str, file: str, address_type: str, port: int) -> NamedDaemons:
    """Return the nodes of ``kubectl get nodes -o json``. Raises CommandFailed."""
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError):
        raise CommandFailed(f"{file}: expected lines, or what kubectl get nodes -o json prints", 2) from None
    try:
        nodes = nodes_in_list(plain)
    except CriProxyError as error:
        raise CommandFailed(f"{file}: {error}", 2) from None
    return _daemons(nodes, file, address_type, port)


def _of_label(selector: str, kubeconfig: Path | None) -> Sequence[ListedNode]:
    """Return the nodes with a label, by the API server of kubectl. Raises CommandFailed."""
    pipe = f"kubectl get nodes -l '{selector}' -o json | cri-proxy status --nodes -"
    try:
        access = access_of(kubeconfig or kubeconfig_of(os.environ, Path.home()), os.environ)
        return asyncio.run(list_nodes(ApiClient(access), selector))
    except AccessError as error:
        raise CommandFailed(f"{error}; or let kubectl ask: {pipe}", 2) from error
    except CriProxyError as error:
        raise CommandFailed(f"--nodes {selector}: {error}") from error


def _daemons(nodes: Sequence[ListedNode], source: str, address_type: str, port: int) -> NamedDaemons:
    if not 0 < len(nodes) <= _MOST_NODES:
        raise CommandFailed(f"{source}: expected 1 to {_MOST_NODES} nodes, got {len(nodes)}", 2)
    found = []
    for node in nodes:
        # Reversed, as dict keeps the last: of several addresses of a type the first counts.
        host = node.name if address_type == "name" else dict(reversed(node.addresses)).get(address_type, "")
        if not host:
            types = ", ".join(dict.fromkeys(kind for kind, _ in node.addresses)) or "none"
            raise CommandFailed(
                f"{source}: {node.name} has no {address_type}: --address-type names another ({types})", 2
            )
        try:
            found.append((node.name, read_url(f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}")))
        except ValueError as error:
            raise CommandFailed(f"{source}: {node.name}: {error}", 2) from None
    return tuple(found)


def _text(path: str) -> str:
    """Return the content of a file; ``-`` is standard input. Raises CommandFailed."""
    try:
        if path == "-":
            text = sys.stdin.read(_MAX_JSON_BYTES + 1)
        else:
            with Path(path).open(encoding="utf-8") as file:
                text = file.read(_MAX_JSON_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{path}: cannot read: {getattr(error, 'strerror', '') or error}", 2) from error
    if len(text) > _MAX_JSON_BYTES:
        raise CommandFailed(f"{path}: larger than {_MAX_JSON_BYTES} bytes", 2)
    return text
