"""Find the API server and the credentials for it: those of a pod, or those of a kubeconfig file.

A pod's token and authority are read again for each call: the kubelet replaces the one before it expires (KEP-1205), the
other when the cluster's ConfigMap kube-root-ca.crt changes. Sources: rest/config.go (InClusterConfig) and
tools/clientcmd/api of k8s.io/client-go.
"""

import base64
import binascii
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.errors import FileError
from cri_proxy.http.call import HttpServer
from cri_proxy.http.messages import is_loopback
from cri_proxy.yaml_fields import DocumentError, YamlField

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_HOST: Final = "KUBERNETES_SERVICE_HOST"
_PORT: Final = "KUBERNETES_SERVICE_PORT"
_DIALECT: Final = Dialect(max_bytes=1 << 20, max_depth=12, max_nodes=20_000)
_TOKEN_BYTES: Final = 1 << 16
_HTTPS: Final = 443


class AccessError(FileError):
    """The API server, or the credentials for it, cannot be found."""


@dataclass(frozen=True, slots=True)
class ApiAccess:
    """The API server, what stands before each path, and the headers that say who asks.

    ``server`` and ``headers`` raise AccessError where a certificate or a token cannot be read.
    """

    server: Callable[[], HttpServer]
    headers: Callable[[], Mapping[str, str]]
    prefix: str = ""


def access_of(kubeconfig: Path | None, environment: Mapping[str, str], account: Path = ACCOUNT) -> ApiAccess:
    """Return the access of this kubeconfig file, or without one that of the pod. Raises AccessError."""
    return _of_file(kubeconfig) if kubeconfig is not None else _of_pod(environment, account)


def kubeconfig_of(environment: Mapping[str, str], home: Path) -> Path | None:
    """Return the file that kubectl would read: the first of $KUBECONFIG that exists, ~/.kube/config; None for neither.

    kubectl merges the files of $KUBECONFIG; here the first counts alone.
    """
    named = [Path(name) for name in environment.get("KUBECONFIG", "").split(":") if name]
    if named:
        return next((path for path in named if path.exists()), named[0])
    usual = home / ".kube" / "config"
    return usual if usual.exists() else None


def _of_pod(environment: Mapping[str, str], account: Path) -> ApiAccess:
    host, port = environment.get(_HOST, ""), environment.get(_PORT, "")
    if not host or not port.isdecimal():
        problem = f"{_HOST} and {_PORT} are not set: this is no pod with an account; --kubeconfig names a file"
        raise AccessError("environment", problem)

    def server() -> HttpServer:
        ca = account / "ca.crt"
        with _named(ca):
            tls = ssl.create_default_context(cafile=str(ca))
        return HttpServer(f"https://{host}:{port}", None, host, int(port), tls)

    server()  # what is missing from the start is told at once
    return ApiAccess(server, lambda: _token_in(account / "token"))


def _of_file(path: Path) -> ApiAccess:
    try:
        config = YamlField.only(YamlField.read_text(str(path), _DIALECT.max_bytes), str(path), _DIALECT, "a kubeconfig")
    except DocumentError as error:
        raise AccessError(str(path), f"line {error.line}: {error.problem}" if error.line else error.problem) from None
    plain = config.plain() if config is not None else None
    kube = _Kubeconfig(path, plain if isinstance(plain, dict) else {})
    cluster, user = kube.chosen()
    url = urlsplit(str(cluster.get("server", "")))
    if url.scheme not in ("http", "https") or not url.hostname:
        raise AccessError(str(path), f"server: expected https://HOST:PORT, got {cluster.get('server')!r:.80}")
    if url.scheme == "http" and not (is_loopback(url.hostname) or url.hostname == "localhost"):
        raise AccessError(str(path), f"server: {url.netloc} without TLS is only asked on loopback; expected https")
    tls = kube.tls(cluster, user) if url.scheme == "https" else None
    port = url.port or (_HTTPS if tls is not None else 80)
    server = HttpServer(f"{url.scheme}://{url.netloc}", None, url.hostname, port, tls)
    return ApiAccess(lambda: server, kube.headers(user), url.path.rstrip("/"))


_Named = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _Kubeconfig:
    """A file, read; paths in it are relative to its directory."""

    path: Path
    plain: _Named

    def chosen(self) -> tuple[_Named, _Named]:
        """Return the cluster and the user of the current context."""
        context = self._entry("contexts", "context", self.plain.get("current-context"))
        return (
            self._entry("clusters", "cluster", context.get("cluster")),
            self._entry("users", "user", context.get("user")) if context.get("user") else {},
        )

    def _entry(self, listing: str, kind: str, name: object) -> _Named:
        entries = self.plain.get(listing)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(kind), dict):
                found: _Named = entry[kind]
                return found
        raise AccessError(str(self.path), f"no {kind} {name!r:.80} in {listing}")

    def tls(self, cluster: _Named, user: _Named) -> ssl.SSLContext:
        """Return the context that trusts the cluster's authority, with the user's certificate if there is one."""
        authority = self._content(cluster, "certificate-authority")
        with _named(self.path):
            context = ssl.create_default_context(cadata=authority.decode() if authority else None)
            if cluster.get("insecure-skip-tls-verify") is True:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            certificate, key = self._content(user, "client-certificate"), self._content(user, "client-key")
            if certificate and key:
                _load_pair(context, certificate, key)
        return context

    def headers(self, user: _Named) -> Callable[[], Mapping[str, str]]:
        """Return what gives the headers of this user. Raises AccessError for a way that is not known here."""
        for way in ("exec", "auth-provider"):
            if way in user:
                raise AccessError(str(self.path), f"user: {way} is not run here; use a token, tokenFile or certificate")
        if file := user.get("tokenFile"):
            return lambda: _token_in(self._beside(str(file)))
        headers = _bearer(str(user["token"]), self.path) if user.get("token") else {}
        return lambda: headers

    def _content(self, entry: _Named, key: str) -> bytes:
        """Return what ``KEY-data`` holds in base64, or the file that KEY names; b"" for neither."""
        if data := entry.get(f"{key}-data"):
            try:
                return base64.b64decode(str(data), validate=True)
            except binascii.Error:
                raise AccessError(str(self.path), f"{key}-data: expected base64") from None
        if not (file := entry.get(key)):
            return b""
        path = self._beside(str(file))
        with _named(path):
            return path.read_bytes()

    def _beside(self, name: str) -> Path:
        return self.path.parent / name


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a certificate and its key, which OpenSSL takes from files alone."""
    with TemporaryDirectory() as directory:  # of mode 0700
        chain, secret = Path(directory) / "certificate", Path(directory) / "key"
        chain.write_bytes(certificate)
        secret.write_bytes(key)
        context.load_cert_chain(str(chain), str(secret))


def _token_in(path: Path) -> Mapping[str, str]:
    with _named(path), path.open("rb") as file:
        token = file.read(_TOKEN_BYTES).decode().strip()
    return _bearer(token, path)


def _bearer(token: str, source: Path) -> Mapping[str, str]:
    if not token or not token.isascii() or any(not "!" <= letter <= "~" for letter in token):
        raise AccessError(str(source), "no token: expected one word")  # which is never shown
    return {"Authorization": f"Bearer {token}"}


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Turn errors about this file into AccessError."""
    try:
        yield
    except ssl.SSLError as error:
        raise AccessError(str(path), f"no certificate that can be used: {error.reason or error}") from None
    except OSError as error:
        raise AccessError(str(path), f"cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # no text
        raise AccessError(str(path), f"cannot be read: {error}") from None
