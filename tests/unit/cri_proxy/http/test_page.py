import re

import pytest

from cri_proxy.http.messages import Response
from cri_proxy.http.page import FILES, page_routes

ROUTES = page_routes()


def content(path: str) -> str:
    answer = ROUTES[path]({})
    assert isinstance(answer, Response)
    return answer.body.decode()


def test_the_page_is_at_the_root() -> None:
    answer = ROUTES["/"]({})
    assert isinstance(answer, Response)
    assert (answer.status, answer.content_type) == (200, "text/html; charset=utf-8")
    assert answer.body.startswith(b"<!doctype html>")


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("page.js", "text/javascript; charset=utf-8"),
        ("page.css", "text/css; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
    ],
)
def test_a_file_has_the_type_that_a_browser_insists_on(name: str, content_type: str) -> None:
    answer = ROUTES[f"/page/{name}"]({})
    assert isinstance(answer, Response)
    assert answer.content_type == content_type


def test_whatever_the_page_names_is_served_and_nothing_else() -> None:
    named = set(re.findall(r'(?:href|src)="([^"#]+)"', content("/")))
    for name in FILES:
        if name.endswith(".js"):
            named |= {f"/page/{word}" for word in re.findall(r'from "\./([^"]+)"', content(f"/page/{name}"))}
    assert named == ROUTES.keys() - {"/"}
