"""The account of a pod: its files and variables, and what is said where they are missing."""

from pathlib import Path

import pytest

from cri_proxy.errors import CriProxyError, FileError
from cri_proxy.kube_api.account import Account, account_in_pod


def test_the_kubelet_tells_a_pod_where_the_server_is(tmp_path: Path) -> None:
    found = account_in_pod({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}, tmp_path)
    assert found == Account("fd00::1", 443, tmp_path)


@pytest.mark.parametrize("port", ["", "x", "-1"])
def test_outside_of_a_pod_there_is_none(port: str) -> None:
    with pytest.raises(CriProxyError, match="runs in no pod"):
        account_in_pod({"KUBERNETES_SERVICE_HOST": "a", "KUBERNETES_SERVICE_PORT": port})


def test_the_token_is_that_of_now(tmp_path: Path) -> None:
    account = Account("a", 1, tmp_path)
    with pytest.raises(FileError, match="token"):
        account.token()
    (tmp_path / "token").write_text("one\n")
    assert account.token() == "one"
    (tmp_path / "token").write_text("two")
    assert account.token() == "two"


def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("x")
    with pytest.raises(FileError, match="certificate"):
        Account("a", 1, tmp_path).tls()
