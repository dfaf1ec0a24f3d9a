"""A certificate for all tests of a process, and an API server behind it with a pod's account."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.api_server import ApiServer, api_server
from tests.testbed.certificates import Certificate, self_signed


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return self_signed(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def server(certificate: Certificate) -> Iterator[ApiServer]:
    with api_server(certificate) as server:
        yield server


@pytest.fixture
def account(tmp_path: Path, certificate: Certificate) -> Path:
    """The directory that a pod finds its account in."""
    directory = tmp_path / "account"
    directory.mkdir()
    (directory / "token").write_text("a-token\n")
    (directory / "ca.crt").write_bytes(certificate.certificate.read_bytes())
    return directory
