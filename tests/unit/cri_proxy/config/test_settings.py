from dataclasses import replace
from pathlib import Path

import pytest

from cri_proxy.config.model import Config
from cri_proxy.config.option_groups import HttpTlsOptions
from cri_proxy.config.settings import host_node_name, settings_for
from cri_proxy.errors import ConfigError


def test_the_admin_socket_lies_beside_the_listen_socket() -> None:
    settings = settings_for(replace(Config(), listen="unix:///tmp/x/cri.sock"))
    assert settings.admin_socket == Path("/tmp/x/admin.sock")


def test_the_node_name_is_the_host_name_in_lower_case_unless_given() -> None:
    assert settings_for(Config()).node_name == host_node_name() == host_node_name().lower() != ""
    assert settings_for(replace(Config(), node_name="w1")).node_name == "w1"


@pytest.mark.parametrize(("field", "missing"), [("image_listen", "imageEndpoint"), ("image_endpoint", "imageListen")])
def test_a_second_socket_needs_both_its_ends(field: str, missing: str) -> None:
    half = replace(Config(), **{field: "unix:///x.sock"})  # type: ignore[arg-type]  # one of two string fields
    with pytest.raises(ConfigError, match=f"needs {missing} as well"):
        settings_for(half)


def test_both_ends_together_are_taken() -> None:
    config = replace(Config(), image_listen="unix:///a.sock", image_endpoint="unix:///b.sock")
    assert settings_for(config).config.image_listen == "unix:///a.sock"


@pytest.mark.parametrize(
    ("tls", "problem"),
    [
        (HttpTlsOptions(certificate="/c"), "httpTLS.certificate: needs httpTLS.key as well"),
        (HttpTlsOptions(key="/k"), "httpTLS.key: needs httpTLS.certificate as well"),
        (HttpTlsOptions(tokens="/t"), "httpTLS.tokenFile: a token that is sent over HTTP can be read"),
        (HttpTlsOptions("/c", "/k", "/t"), "extender: kube-scheduler sends no token"),
    ],
)
def test_what_would_let_a_token_be_read_or_keep_the_scheduler_out_is_refused(tls: HttpTlsOptions, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        settings_for(replace(Config(), http_tls=tls, extender=True))


def test_https_with_tokens_is_taken_and_so_is_the_scheduler_without() -> None:
    settings_for(replace(Config(), http_tls=HttpTlsOptions("/c", "/k", "/t")))
    settings_for(replace(Config(), http_tls=HttpTlsOptions("/c", "/k"), extender=True))
