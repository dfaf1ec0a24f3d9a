import pytest

from cri_proxy.http.messages import is_loopback, names_this_machine


@pytest.mark.parametrize("host", ["", "127.0.0.1", "10.0.0.7:8891", "[::1]:8891", "localhost", "LOCALHOST.:80"])
def test_an_address_and_localhost_name_this_machine(host: str) -> None:
    assert names_this_machine(host)


@pytest.mark.parametrize(
    "host",
    [
        "page.example",
        "page.example:8891",
        "localhost.page.example",
        "127.0.0.1.page.example",
        "a@localhost",
        "[localhost]",
    ],
)
def test_any_other_name_does_not(host: str) -> None:
    assert not names_this_machine(host)


@pytest.mark.parametrize(
    ("address", "is_local"), [("127.0.0.1", True), ("::1", True), ("10.0.0.7", False), ("x", False)]
)
def test_loopback_is_told_by_its_address(address: str, is_local: bool) -> None:
    assert is_loopback(address) is is_local
