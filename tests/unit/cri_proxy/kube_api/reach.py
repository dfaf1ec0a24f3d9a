"""Short ways from a test to the API server: as a pod, and through the client."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cri_proxy.kube_api.access import ApiAccess, access_of
from cri_proxy.kube_api.client import ApiClient
from tests.fakes.api_server import TOKEN, ApiServer, api_server
from tests.testbed.certificates import self_signed

NODE = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/n1"


def environment(port: int) -> dict[str, str]:
    return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(port)}


def as_pod(server: ApiServer, account: Path) -> ApiAccess:
    return access_of(None, environment(server.port), account)


def client(server: ApiServer, account: Path) -> ApiClient:
    return ApiClient(as_pod(server, account))


@contextmanager
def served(server: ApiServer, directory: Path) -> Iterator[ApiAccess]:
    """The server, and the access of a pod whose account is in the directory."""
    certificate = self_signed(directory)
    (directory / "token").write_text(f"{TOKEN}\n")
    with api_server(certificate, server):
        yield as_pod(server, directory)
