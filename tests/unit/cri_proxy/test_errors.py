import pytest

from cri_proxy.errors import CallFailed, ConfigError, CriProxyError, RuntimeUnavailable, StoreError, UnreadableRequest
from cri_proxy.foreign_text import WORDS_BYTES


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (CallFailed("/a.B/C", 5, "no such container"), "/a.B/C: status 5: no such container"),
        (RuntimeUnavailable("/a.B/C", "connection refused"), "/a.B/C: the runtime is away: connection refused"),
        (UnreadableRequest("StopContainer", "cut off"), "StopContainer: the request cannot be read: cut off"),
        (StoreError("/var/x.db", "disk full"), "/var/x.db: disk full"),
        (ConfigError("c.yaml", 3, "policy", "unknown"), "c.yaml:3: policy: unknown"),
        (ConfigError("c.yaml", 0, "", "not YAML"), "c.yaml: not YAML"),
    ],
)
def test_an_error_names_the_thing_and_the_problem(error: CriProxyError, text: str) -> None:
    assert str(error) == text


def test_two_errors_alike_are_still_two() -> None:
    assert StoreError("x", "y") != StoreError("x", "y")


def test_what_broke_a_connection_is_cut_and_cleaned() -> None:
    error = RuntimeUnavailable("/a.B/C", "\x1b[2J" * 99_999)
    assert str(error).isprintable()
    assert len(str(error)) < WORDS_BYTES + 100
