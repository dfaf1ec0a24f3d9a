from collections.abc import Callable

import pytest

from cri_proxy.config import addresses


@pytest.mark.parametrize("text", ["unix:///run/a.sock", "/run/a.sock"])
def test_a_path_alone_is_a_unix_endpoint(text: str) -> None:
    assert addresses.unix_endpoint(text) == "unix:///run/a.sock"


def test_the_runtime_may_be_embedded() -> None:
    assert addresses.runtime_endpoint("embedded") == "embedded"


@pytest.mark.parametrize("text", ["off", "OFF", "127.0.0.1:8891", "[::1]:80", "localhost:1"])
def test_http_is_an_address_with_a_port_or_off(text: str) -> None:
    assert addresses.http_address(text) == text.lower()


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (addresses.unix_endpoint, "tcp://1.2.3.4:5"),
        (addresses.unix_endpoint, "unix://relative"),
        (addresses.unix_endpoint, "unix:///run/"),
        (addresses.unix_endpoint, "unix:///" + "x" * 107),
        (addresses.http_address, "8891"),
        (addresses.http_address, ":8891"),
        (addresses.http_address, "host:65536"),
        (addresses.http_address, "::1:80"),
        (addresses.directory, "var/lib"),
        (addresses.optional_name, "../../etc"),
        (addresses.optional_name, "a/b"),
        (addresses.annotation_domain, "Example.com"),
        (addresses.annotation_domain, ""),
        (addresses.command_words, "nvidia-smi -q"),
        (addresses.command_words, "'' -q"),
        (addresses.command_words, "/bin/probe 'open"),
    ],
)
def test_garbage_is_refused_with_what_was_expected(read: Callable[[str], str], text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        read(text)


def test_no_second_socket_is_the_empty_text() -> None:
    assert (addresses.optional_endpoint(""), addresses.optional_name("")) == ("", "")


def test_a_command_is_its_words() -> None:
    assert addresses.command_words("/bin/probe 'gpu 0'") == ("/bin/probe", "gpu 0")
