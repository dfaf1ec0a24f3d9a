import base64
from pathlib import Path

import pytest

from cri_proxy.http.call import Unreachable
from cri_proxy.kube_api.access import AccessError, access_of, kubeconfig_of
from cri_proxy.kube_api.client import ApiClient, ApiRefused
from tests.fakes.api_server import ApiServer
from tests.testbed.certificates import Certificate, self_signed
from tests.unit.cri_proxy.kube_api.reach import NODE, as_pod, environment


def kubeconfig(directory: Path, cluster: str, user: str) -> Path:
    path = directory / "kubeconfig"
    path.write_text(
        "current-context: here\n"
        "contexts: [{name: here, context: {cluster: c, user: u}}]\n"
        f"clusters: [{{name: c, cluster: {{{cluster}}}}}]\n"
        f"users: [{{name: u, user: {{{user}}}}}]\n"
    )
    return path


def problem(path: Path) -> str:
    with pytest.raises(AccessError) as error:
        access_of(path, {}).headers()
    return str(error.value).removeprefix(f"{path}: ")


async def test_a_pod_reaches_the_server_with_its_token(server: ApiServer, account: Path) -> None:
    assert await ApiClient(as_pod(server, account)).get(NODE) is None
    assert server.requests[0].headers["authorization"] == "Bearer a-token"
    assert server.requests[0].headers["user-agent"].startswith("cri-proxy/")


async def test_a_token_that_is_replaced_is_used_for_the_next_call(server: ApiServer, account: Path) -> None:
    api = ApiClient(as_pod(server, account))
    await api.get(NODE)
    server.token = "another"
    with pytest.raises(ApiRefused, match="401 Unauthorized"):
        await api.get(NODE)
    (account / "token").write_text("another")
    assert await api.get(NODE) is None


async def test_an_authority_that_is_replaced_is_trusted_from_the_next_call_on(
    server: ApiServer, account: Path, tmp_path: Path
) -> None:
    ours = (account / "ca.crt").read_bytes()
    (account / "ca.crt").write_bytes(self_signed(tmp_path).certificate.read_bytes())
    api = ApiClient(as_pod(server, account))
    with pytest.raises(Unreachable, match="its certificate is not trusted"):
        await api.get(NODE)
    (account / "ca.crt").write_bytes(ours)
    assert await api.get(NODE) is None


async def test_a_server_with_another_certificate_gets_no_token(server: ApiServer, account: Path) -> None:
    access = access_of(kubeconfig(account, f'server: "https://127.0.0.1:{server.port}"', "token: a-token"), {})
    with pytest.raises(Unreachable, match="its certificate is not trusted"):
        await ApiClient(access).get(NODE)
    assert server.requests == []


@pytest.mark.parametrize("missing", ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"])
def test_what_is_no_pod_is_told_of_the_option(account: Path, missing: str) -> None:
    with pytest.raises(AccessError, match="this is no pod with an account; --kubeconfig names a file"):
        access_of(None, {**environment(6443), missing: ""}, account)


def test_a_pod_without_a_certificate_is_an_error_with_its_path(account: Path) -> None:
    (account / "ca.crt").unlink()
    with pytest.raises(AccessError, match=r"account/ca.crt: cannot be read: No such file"):
        access_of(None, environment(6443), account)


@pytest.mark.parametrize("token", ["", "two words", "a\r\nHost: evil", "ä"])
def test_a_token_that_is_no_word_is_refused_and_not_shown(account: Path, token: str) -> None:
    (account / "token").write_text(token)
    with pytest.raises(AccessError) as error:
        access_of(None, environment(6443), account).headers()
    assert str(error.value) == f"{account}/token: no token: expected one word"


@pytest.mark.parametrize("user", ["token: a-token", "tokenFile: account/token"])
@pytest.mark.parametrize("is_inline", [True, False])
async def test_a_kubeconfig_names_server_authority_and_user(
    server: ApiServer, account: Path, tmp_path: Path, certificate: Certificate, user: str, is_inline: bool
) -> None:
    encoded = base64.b64encode(certificate.certificate.read_bytes()).decode()
    authority = f"certificate-authority-data: {encoded}" if is_inline else "certificate-authority: account/ca.crt"
    path = kubeconfig(tmp_path, f'server: "https://127.0.0.1:{server.port}/prefix/", {authority}', user)
    server.scripted = []
    assert await ApiClient(access_of(path, {})).get(NODE) is None
    assert server.requests[0].path == f"/prefix{NODE}"


def test_a_client_certificate_is_loaded(tmp_path: Path, certificate: Certificate) -> None:
    pair = f"client-certificate: {certificate.certificate}, client-key: {certificate.key}"
    access = access_of(kubeconfig(tmp_path, 'server: "https://a:6443"', pair), {})
    assert access.headers() == {}
    wrong = f"client-certificate: {certificate.certificate}, client-key: {certificate.certificate}"
    assert "no certificate that can be used" in problem(kubeconfig(tmp_path, 'server: "https://a:6443"', wrong))


@pytest.mark.parametrize(
    ("cluster", "user", "expected"),
    [
        ('server: "ftp://a"', "token: t", "server: expected https://HOST:PORT, got 'ftp://a'"),
        ('server: "http://10.0.0.1:8080"', "token: t", "10.0.0.1:8080 without TLS is only asked on loopback"),
        ('server: "https://a", certificate-authority-data: "!"', "token: t", "expected base64"),
        ('server: "https://a", certificate-authority-data: "YWJj"', "token: t", "no certificate that can be used"),
        ('server: "https://a", certificate-authority: none.crt', "token: t", "none.crt: cannot be read: No such file"),
        ('server: "https://a"', "exec: {command: login}", "user: exec is not run here"),
        ('server: "https://a"', "tokenFile: nowhere", "nowhere: cannot be read: No such file"),
        ("}", "", "expected"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_says_why(tmp_path: Path, cluster: str, user: str, expected: str) -> None:
    assert expected in problem(kubeconfig(tmp_path, cluster, user)).replace("YAML", "expected")


def test_an_unknown_context_is_named(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("current-context: gone\ncontexts: []\n")
    assert problem(path) == "no context 'gone' in contexts"


def test_plain_http_on_loopback_is_for_tests_and_tunnels(tmp_path: Path) -> None:
    access = access_of(kubeconfig(tmp_path, 'server: "http://127.0.0.1:8001"', ""), {})
    assert (access.server().tls, access.server().port) == (None, 8001)


def test_the_file_is_the_one_that_kubectl_would_read(tmp_path: Path) -> None:
    assert kubeconfig_of({}, tmp_path) is None
    usual = tmp_path / ".kube" / "config"
    usual.parent.mkdir()
    usual.touch()
    assert kubeconfig_of({"KUBECONFIG": ""}, tmp_path) == usual
    assert kubeconfig_of({"KUBECONFIG": f"/not/there:{usual}"}, Path("/")) == usual
    assert kubeconfig_of({"KUBECONFIG": "/not/there:/nor/there"}, tmp_path) == Path("/not/there")
