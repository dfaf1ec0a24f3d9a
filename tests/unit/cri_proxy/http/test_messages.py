"""HTTP messages."""

import pytest

from cri_proxy.http.messages import BadRequest, Request, Response, parse_request, render_response, text_response


def parsed(target: str, *fields: str, method: str = "GET", version: str = "HTTP/1.1") -> Request:
    return parse_request("\r\n".join([f"{method} {target} {version}", *fields, "", ""]).encode())


def test_path_and_query_are_decoded() -> None:
    assert parsed("/a%20b?pod=x%2Fy&pod=z&c=") == Request("GET", "/a b", {"pod": "x/y", "c": ""}, keeps_alive=True)


@pytest.mark.parametrize(
    ("version", "fields", "keeps_alive"),
    [
        ("HTTP/1.1", (), True),
        ("HTTP/1.1", ("Connection: close",), False),
        ("HTTP/1.0", (), False),
        ("HTTP/1.0", ("connection: Keep-Alive",), True),
    ],
)
def test_who_keeps_the_connection_open(version: str, fields: tuple[str, ...], keeps_alive: bool) -> None:
    assert parsed("/", *fields, version=version).keeps_alive is keeps_alive


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/2\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: page.example\r\nhost: localhost\r\n\r\n", 400),
        (b"GET http://[::1 HTTP/1.1\r\n\r\n", 400),
        (b"GET /?" + b"a=1&" * 30 + b" HTTP/1.1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\n\r\n", 405),
        (b"DELETE / HTTP/1.1\r\n\r\n", 405),
        (b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
    ],
)
def test_what_is_not_understood_has_a_status(head: bytes, status: int) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_request(head)
    assert caught.value.status == status


def test_a_response_says_how_long_it_is() -> None:
    sent = render_response(Response(200, "text/plain", b"body"), has_body=True, keeps_alive=False)
    assert sent.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nContent-Length: 4\r\n" in sent
    assert sent.endswith(b"\r\nConnection: close\r\n\r\nbody")


def test_head_is_answered_without_the_body() -> None:
    sent = render_response(text_response(404, "no"), has_body=False, keeps_alive=True)
    assert b"Content-Length: 3\r\n" in sent
    assert sent.endswith(b"\r\n\r\n")
