"""The HTTP API's handlers by path (status, explain, topology, config, health, metrics, plan), and JSON in steps."""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from http import HTTPStatus
from typing import Final

from cri_proxy.codec import Plain, encode
from cri_proxy.config.model import Config, known_options
from cri_proxy.config.values import value_of
from cri_proxy.foreign_text import visible, visible_json
from cri_proxy.http.messages import JSON, Handler, HttpRequest, PostHandler, Query, Response, text_response
from cri_proxy.metrics.exposition import CONTENT_TYPE, exposition
from cri_proxy.node.decision_log.incidents import Incidents
from cri_proxy.node.status.daemon_view import DaemonView
from cri_proxy.node.status.decision_views import PlanView
from cri_proxy.node.status.model import ConfigurationView, Health, StatusView
from cri_proxy.node.status.names import readings_of
from cri_proxy.steps import BUNCH, Steps, bunches

_EXPLAINED_BUNCH: Final = 2
"""Explanations that a step writes: one in full is a dozen kilobytes, about a millisecond."""

_NUMBER_DIGITS: Final = 18


def build_routes(view: DaemonView) -> dict[str, Handler]:
    """Return the GET handlers by path; they only read."""
    return {
        "/healthz": lambda query: _health(query, "healthz", view.health()),
        "/readyz": lambda query: _health(query, "readyz", view.health()),
        "/metrics": lambda query: Response(HTTPStatus.OK, CONTENT_TYPE, exposition(view.samples())),
        "/api/v1/status": lambda query: _status(view),
        "/api/v1/topology": lambda query: _topology(view),
        "/api/v1/explain": lambda query: _explain(view, query),
        "/api/v1/history": lambda query: _history(view, query),
        "/api/v1/config": lambda query: _json(config_json(view.config())),
    }


def incidents_route(incidents: Incidents, node: str) -> Handler:
    """Return the GET handler that answers what has happened to pods of this node since number ``after``."""

    def answer(query: Query) -> Response | Steps[Response]:
        after = query.get("after", "0")
        if not (after.isascii() and after.isdecimal() and len(after) < _NUMBER_DIGITS):
            return _json({"error": f"expected ?after=NUMBER, got {after!r:.40}"}, HTTPStatus.BAD_REQUEST)
        return _object(_members(incidents.after(int(after), node)))

    return answer


def config_state_route(configuration: Callable[[], ConfigurationView], node: str) -> Handler:
    """Return the GET handler that answers which configuration is in force, and why the last reload was rejected."""

    def answer(query: Query) -> Response:
        view = configuration()
        is_rejected = view.last is not None and view.last.outcome == "rejected"
        kept = "the file was invalid at the start: the last valid configuration is in force" if view.is_kept else ""
        rejected = view.last.reason if view.last is not None and is_rejected else kept
        digest = view.last.digest if view.last is not None and rejected else ""
        state = {"node": node, "file": view.file, "digest": view.digest}
        return _json({**state, "rejected": rejected, "rejected_digest": digest})

    return answer


def plan_route(plan: Callable[[str, str], Awaitable[PlanView]]) -> PostHandler:
    """Return the POST handler that answers what the configuration in the body would change; ``group`` is the node's."""

    async def answer(request: HttpRequest) -> Response:
        try:
            text = request.body.decode()
        except UnicodeDecodeError as error:
            return _json({"error": f"expected UTF-8: {error}"}, HTTPStatus.BAD_REQUEST)
        return _json(encode(await plan(text, request.query.get("group", ""))))

    return answer


def body_route(answer_to: Callable[[HttpRequest], Awaitable[object]]) -> PostHandler:
    """Return the POST handler that answers a request with this mapping or dataclass as JSON."""

    async def answer(request: HttpRequest) -> Steps[Response]:
        return _object(_members(await answer_to(request)))

    return answer


def _members(value: object) -> Iterable[tuple[str, object]]:
    if isinstance(value, Mapping):
        return value.items()
    if not is_dataclass(value) or isinstance(value, type):
        raise TypeError(f"no object in JSON for {type(value).__name__}")
    return ((field.name, getattr(value, field.name)) for field in fields(value))


def _object(members: Iterable[tuple[str, object]], most: int = BUNCH) -> Steps[Response]:
    text = yield from object_text(members, most)
    return Response(HTTPStatus.OK, JSON, f"{text}\n".encode())


def _json(value: object, status: int = HTTPStatus.OK) -> Response:
    return Response(status, JSON, f"{json_text(value)}\n".encode())


def _status(view: DaemonView) -> Steps[Response]:
    text = yield from status_text((yield from view.status_steps()))
    return Response(HTTPStatus.OK, JSON, f"{text}\n".encode())


def _health(query: Query, name: str, health: Health) -> Response:
    """Return 200 or 503 with a line for each problem; ``verbose`` lists good parts too, ``format=json`` is data.

    The verbose form is that of the Kubernetes API server's health endpoints.
    """
    is_good, bad = (health.is_alive, "not alive") if name == "healthz" else (health.is_ready, "not ready")
    status = HTTPStatus.OK if is_good else HTTPStatus.SERVICE_UNAVAILABLE
    if query.get("format") == "json":
        return _json(encode(health), status)
    if "verbose" not in query:
        return text_response(status, "\n".join(["ok" if is_good else bad, *map(visible, health.problems)]))
    parts = [f"[-]{p.name} failed: {visible(p.problem)}" if p.problem else f"[+]{p.name} ok" for p in health.parts]
    return text_response(status, "\n".join([*parts, f"{name} check {'passed' if is_good else 'failed'}"]))


def _topology(view: DaemonView) -> Steps[Response]:
    from sysfs.show.as_json import json_value  # 0.2 MB that a daemon needs only for this

    plain = json_value(view.topology())
    yield
    return (yield from _object(plain.items()))


def _explain(view: DaemonView, query: Query) -> Steps[Response]:
    """Return the decisions of what ``pod`` means; 404 with names that are near it where it means nothing known."""
    pod, container = query.get("pod", ""), query.get("container", "")
    if not readings_of(pod, container):
        problem = f"expected ?pod=[NAMESPACE/]POD[/CONTAINER], with &container=NAME or &namespace=NAME, got {pod!r}"
        return _json({"error": problem}, HTTPStatus.BAD_REQUEST)
    explained = yield from view.explain_steps(pod, container or None, query.get("namespace", ""))
    yield
    if explained.decisions:
        return (yield from _object(_members(explained), _EXPLAINED_BUNCH))
    near = yield from view.candidates(pod, container or None)
    return _json(encode(replace(explained, candidates=near)), HTTPStatus.NOT_FOUND)


def _history(view: DaemonView, query: Query) -> Steps[Response]:
    """Return what has happened since ``since``, in seconds since the epoch."""
    try:
        since_seconds = float(query.get("since", "0"))
    except ValueError:
        return _json({"error": f"expected ?since=SECONDS, got {query['since']!r}"}, HTTPStatus.BAD_REQUEST)
    history = yield from view.history_steps(since_seconds)
    return (yield from _object(_members(history)))


def config_json(config: Config) -> dict[str, Plain]:
    """Return every option by its key with its value as it is written in a file, groups nested; null = not set."""
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


def json_text(value: object) -> str:
    """Return plain data (``codec.Plain``) as one line; all of its characters print, for ``curl`` on a terminal."""
    # Without indentation json is three times as fast, and the event loop relays calls meanwhile.
    return visible_json(json.dumps(value, ensure_ascii=False))


def status_text(view: StatusView) -> Steps[str]:
    """Return the view as JSON; a step writes at most a bunch of a list."""
    return object_text(_members(view))


def object_text(members: Iterable[tuple[str, object]], most: int = BUNCH) -> Steps[str]:
    """Return these members of an object as JSON; a step writes at most so many items of a list."""
    parts: list[str] = []
    for name, value in members:
        parts.append(f"{', ' if parts else '{'}{json_text(name)}: ")
        if isinstance(value, tuple | list) and len(value) > most:
            texts = []
            for bunch in bunches(value, most):
                yield
                texts.append(json_text(encode(bunch))[1:-1])
            parts.append(f"[{', '.join(texts)}]")
        else:
            parts.append(json_text(encode(value)))
    yield
    return "".join([*parts, "}"])
