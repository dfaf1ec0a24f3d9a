"""Serve the page at ``/`` and its files, each read when it is asked for: it takes no memory before."""

from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final

from cri_proxy.http.messages import Handler, Query, Response

_DIRECTORY: Final = Path(__file__).with_name("page")
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_INDEX: Final = "index.html"
FILES: Final = (
    "ask.js",
    "changes.js",
    "explain.js",
    "icon.svg",
    "map.js",
    "model.js",
    "news.js",
    "page.css",
    "page.js",
    "plan.js",
    "table.js",
    "words.js",
)


def page_routes() -> dict[str, Handler]:
    """Return the GET handlers of the page by path: no other file than these, and nothing of the node in them."""
    routes: dict[str, Handler] = {f"/page/{name}": partial(_file, name) for name in FILES}
    return routes | {"/": partial(_file, _INDEX)}


def _file(name: str, query: Query) -> Response:
    path = _DIRECTORY / name
    return Response(HTTPStatus.OK, _TYPES[path.suffix], path.read_bytes())
