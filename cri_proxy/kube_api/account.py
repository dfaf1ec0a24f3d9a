"""Where the API server is and how a pod proves who it is: the files of its service account."""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cri_proxy.errors import CriProxyError, FileError

DIRECTORY: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Account:
    """The API server's ``host`` and ``port``, and the directory with ``token`` and ``ca.crt``.

    Source: "Accessing the Kubernetes API from a Pod". The kubelet writes the token again before it expires.
    """

    host: str
    port: int
    directory: Path = DIRECTORY

    def token(self) -> str:
        """Return the token as it is now. Blocks. Raises FileError."""
        path = self.directory / "token"
        try:
            return path.read_text().strip()
        except OSError as error:
            raise FileError(str(path), f"cannot read the token of the service account: {error.strerror}") from error

    def tls(self) -> ssl.SSLContext:
        """Return what checks that the server is the cluster's. Blocks. Raises FileError."""
        path = self.directory / "ca.crt"
        try:
            return ssl.create_default_context(cafile=path)
        except (OSError, ssl.SSLError) as error:
            raise FileError(str(path), f"cannot read the certificate of the cluster: {error}") from error


def account_in_pod(environment: Mapping[str, str] = os.environ, directory: Path = DIRECTORY) -> Account:
    """Return the account of the pod that this process runs in. Raises CriProxyError outside of one."""
    host, port = (environment.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
    if not host or not port.isascii() or not port.isdecimal():
        raise CriProxyError("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this runs in no pod")
    return Account(host, int(port), directory)
