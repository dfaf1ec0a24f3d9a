"""Wire the admin HTTP: which questions are asked of which part of the daemon, on the admin socket and on TCP."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from cri_proxy.clock import Clock
from cri_proxy.codec import encode
from cri_proxy.config.option_groups import HttpTlsOptions
from cri_proxy.config.settings import Settings
from cri_proxy.daemon.status import HttpAddress
from cri_proxy.daemon.watchers import Watchers
from cri_proxy.http.limits import FairShare
from cri_proxy.http.messages import Handler, HttpRequest, PostHandler
from cri_proxy.http.page import page_routes
from cri_proxy.http.routes import (
    body_route,
    build_routes,
    config_json,
    config_state_route,
    incidents_route,
    plan_route,
)
from cri_proxy.http.server import AdminServer, Guard, Posts
from cri_proxy.http.status_stream import StatusFeed
from cri_proxy.intercept.interceptor import CriInterceptor
from cri_proxy.intercept.reader import Reader
from cri_proxy.logs import Log
from cri_proxy.metrics.counters import Counters
from cri_proxy.node.decision_log.journal import Journal
from cri_proxy.node.node import Node
from cri_proxy.node.status.view import NodeView
from cri_proxy.steps import bunches

if TYPE_CHECKING:  # loaded where it is used
    from cri_proxy.daemon.manifest_fit import ManifestFit
    from cri_proxy.node_topology.source import TopologySource

_QUESTION_BYTES: Final = 64 << 10  # of the scheduler: a pod, and nodes by name; `cri-proxy extender` takes whole nodes
_MANIFESTS: Final = "/api/v1/fit/manifests"

_Answers = Callable[[HttpRequest], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class AdminParts:
    """What is asked over HTTP. ``topology`` loads and returns what makes the node's NodeResourceTopology object."""

    settings: Settings
    node: Node
    interceptor: CriInterceptor
    watchers: Watchers
    view: NodeView
    topology: "Callable[[], TopologySource]"
    journal: Journal
    clock: Clock


def admin_server(parts: AdminParts, http: HttpAddress, log: Log) -> AdminServer:
    """Return the server, which listens nowhere yet; ``http`` hears when TCP is opened late."""
    asked: dict[str, _Answers] = {
        _MANIFESTS: _manifest_fit(parts.node, lambda: parts.interceptor.reader, parts.clock),
        "/api/v1/fit": partial(_fit, parts.interceptor, parts.node, FairShare(parts.clock)),
        "/api/v1/state": partial(_state, parts.node),
    }
    posts = {"/api/v1/plan": plan_route(parts.watchers.plan)} | {path: body_route(each) for path, each in asked.items()}
    feed = StatusFeed(parts.view, parts.clock, partial(parts.journal.failed_open, "status feed"))
    return AdminServer(
        {**build_routes(parts.view), **_exporter_routes(parts)},
        posts=posts,
        tcp_posts=_tcp_posts(posts[_MANIFESTS], parts.clock, log if parts.settings.config.extender else None),
        streams={"/api/v1/events": feed.events},
        # Without a token: a browser sends none of its own for a page, whose files tell nothing of the node.
        public=page_routes(),
        on_late_tcp=http.opened,
        guard=_tls_guard(parts.settings.config.http_tls, http),
    )


def _exporter_routes(parts: AdminParts) -> Mapping[str, Handler]:
    """Return the GET handlers for the exporter, by path."""
    name = parts.settings.node_name
    return {
        "/api/v1/incidents": incidents_route(parts.journal.incidents, name),
        "/api/v1/config-state": config_state_route(parts.watchers.reloader.view, name),
        "/api/v1/node-topology": lambda query: parts.topology().answer(query),
    }


def _tls_guard(options: HttpTlsOptions, http: HttpAddress) -> Guard | None:
    """Return what clients on TCP go through first; None where the options name no certificate."""
    if not options.certificate:
        return None
    from cri_proxy.http.tls import TlsFiles, TlsGuard  # OpenSSL is 5 MB

    return TlsGuard(TlsFiles.named(options.certificate, options.key, options.tokens), http.files_judged)


def _tcp_posts(manifests: PostHandler, clock: Clock, log: Log | None) -> Posts:
    """Return the page's POST handler, with ``log`` also the scheduler's. Small questions: the relay waits meanwhile.

    There is room for one of the scheduler beside one of the page, which takes longer, and answers one at a time.
    """
    waiting = {_MANIFESTS: manifests}
    if log is None:
        return Posts({}, _QUESTION_BYTES, most_at_once=1, waiting=waiting)
    from cri_proxy.extender.answers import Extender
    from cri_proxy.extender.metrics import TABLE

    extender = Extender(log=log, clock=clock, counters=Counters(TABLE))
    return Posts(extender.handlers, _QUESTION_BYTES, most_at_once=2, waiting=waiting)


def _manifest_fit(node: Node, reader_now: Callable[[], Reader], clock: Clock) -> _Answers:
    """Return the answers about pasted manifests."""

    @cache
    def fit() -> "ManifestFit":
        from cri_proxy.daemon.manifest_fit import ManifestFit  # late: most daemons are never asked

        return ManifestFit(node, reader_now, clock)

    return lambda request: fit().answer(request)


async def _state(node: Node, request: HttpRequest) -> object:
    """Return the state for ``capture --state``: the options in force, the rows, and the pods."""
    from cri_proxy.state.capture import state_json  # late: most daemons are never asked

    ledger = node.context.ledger
    plain = state_json(config_json(node.coordinator.config), tuple(ledger.sandboxes.values()))
    for bunch in bunches(tuple(ledger.rows())):
        plain["rows"] += map(partial(encode, sparse=True), bunch)
        # Between bunches: a node of hundreds of containers would hold up every call through the relay.
        await asyncio.sleep(0)
    return plain


async def _fit(interceptor: CriInterceptor, node: Node, share: FairShare, request: HttpRequest) -> object:
    """Return where these containers would land now."""
    from cri_proxy.intercept.fit import fit  # late: most daemons are never asked

    return await fit(node, interceptor.reader, request.body, turn=share.turn, is_abandoned=request.is_abandoned)
