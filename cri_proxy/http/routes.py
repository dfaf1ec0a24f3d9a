"""Which path answers with what. Pure: a view in, responses out; the admin socket and TCP serve the same table."""

import base64
import zlib
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from cri_proxy.codec import Plain, encode
from cri_proxy.config.layouts import MAX_BYTES
from cri_proxy.config.model import Config, known_options
from cri_proxy.config.values import value_of
from cri_proxy.http.json_text import json_text, object_text, status_text
from cri_proxy.http.messages import JSON, Response, text_response
from cri_proxy.metrics.exposition import CONTENT_TYPE, Exposition
from cri_proxy.node.status.model import DaemonView, Health, PlanView
from cri_proxy.slices import Slices
from sysfs.show.as_json import json_value

Query = Mapping[str, str]
# Answers at once, or slice by slice where that would keep the event loop from others for long.
Handler = Callable[[Query], Response | Slices[Response]]
# Answered on the admin socket alone: what takes its time, or is root's business.
PrivateHandler = Callable[[Query], Awaitable[Response]]


def build_routes(view: DaemonView) -> dict[str, Handler]:
    """Path -> handler. Every handler only reads."""
    exposition = Exposition()
    return {
        "/healthz": lambda query: _health(query, "healthz", view.health()),
        "/readyz": lambda query: _health(query, "readyz", view.health()),
        "/metrics": lambda query: Response(HTTPStatus.OK, CONTENT_TYPE, exposition.render(view.samples())),
        "/api/v1/status": lambda query: _status(view),
        "/api/v1/topology": lambda query: _topology(view),
        "/api/v1/explain": lambda query: _explain(view, query),
        "/api/v1/config": lambda query: _json(config_json(view.config())),
    }


def plan_route(plan: Callable[[str, str], Awaitable[PlanView]]) -> PrivateHandler:
    """``text`` is the configuration's file as ``packed`` gives it, ``group`` the node's group; changes nothing."""

    async def answer(query: Query) -> Response:
        try:
            text = unpacked(query.get("text", ""))
        except ValueError as error:
            return _json({"error": f"text: {error}"}, HTTPStatus.BAD_REQUEST)
        return _json(encode(await plan(text, query.get("group", ""))))

    return answer


def packed(text: str) -> str:
    """A text made small for a request line."""
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode()


def unpacked(text: str) -> str:
    """What ``packed`` was given. Raises ValueError, also for what is longer than a ConfigMap.

    >>> unpacked(packed("adopt: pin"))
    'adopt: pin'
    """
    inflating = zlib.decompressobj()
    try:
        raw = inflating.decompress(base64.urlsafe_b64decode(text), MAX_BYTES + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not inflating.eof:
        raise ValueError(f"incomplete, or larger than {MAX_BYTES} bytes")
    return raw.decode()


def _json(value: object, status: int = HTTPStatus.OK) -> Response:
    return Response(status, JSON, f"{json_text(value)}\n".encode())


def _status(view: DaemonView) -> Slices[Response]:
    status = yield from view.status_slices()
    text = yield from status_text(status)
    return Response(HTTPStatus.OK, JSON, f"{text}\n".encode())


def _health(query: Query, name: str, health: Health) -> Response:
    """200 or 503 with what is degraded, a line each; ``verbose`` names good parts too, ``format=json`` is data.

    The verbose form is that of the Kubernetes API server's own endpoints.
    """
    is_good, bad = (health.is_alive, "not alive") if name == "healthz" else (health.is_ready, "not ready")
    status = HTTPStatus.OK if is_good else HTTPStatus.SERVICE_UNAVAILABLE
    if query.get("format") == "json":
        return _json(encode(health), status)
    if "verbose" not in query:
        return text_response(status, "\n".join(["ok" if is_good else bad, *health.problems]))
    parts = [f"[-]{p.name} failed: {p.problem}" if p.problem else f"[+]{p.name} ok" for p in health.parts]
    return text_response(status, "\n".join([*parts, f"{name} check {'passed' if is_good else 'failed'}"]))


def _topology(view: DaemonView) -> Slices[Response]:
    plain = json_value(view.topology())
    yield
    text = yield from object_text(plain)
    return Response(HTTPStatus.OK, JSON, f"{text}\n".encode())


def _explain(view: DaemonView, query: Query) -> Response:
    """``pod`` is a name or uid, ``container`` optional; 404 with an empty list when nothing is known of it."""
    pod = query.get("pod", "")
    if not pod:
        return _json({"error": "expected ?pod=NAME, and &container=NAME for one of its containers"}, 400)
    explained = view.explain(pod, query.get("container") or None)
    return _json(encode(explained), HTTPStatus.OK if explained.decisions else HTTPStatus.NOT_FOUND)


def config_json(config: Config) -> dict[str, Plain]:
    """Every option by its key with its value as it would be written, groups nested; null = not set."""
    plain: dict[str, Plain] = {}
    for known in known_options():
        value = value_of(config, known)
        inner = plain
        for key in known.path[:-1]:
            below = inner.setdefault(key, {})
            inner = below if isinstance(below, dict) else {}
        inner[known.path[-1]] = _plain_value(value)
    return plain


def _plain_value(value: object) -> Plain:
    match value:
        case None | "":
            return None
        case bool() | float():
            return value
        case tuple():
            return [str(item) for item in value]
    return str(value)
