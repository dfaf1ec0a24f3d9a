"""One holder at a time, and none after one that has failed or vanished."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cri_proxy.errors import CriProxyError
from cri_proxy.kube_api.access import ApiAccess
from cri_proxy.kube_api.lease import LeaseState, Turn
from cri_proxy.kube_api.sync_client import BlockingClient
from tests.fakes.api_server import LEASES, ApiServer
from tests.unit.cri_proxy.kube_api.reach import served

PATH = f"{LEASES.format('kube-system')}/installer"


@pytest.fixture
def server() -> ApiServer:
    return ApiServer()


@pytest.fixture
def account(server: ApiServer, tmp_path: Path) -> Iterator[ApiAccess]:
    with served(server, tmp_path) as account:
        yield account


def turn(account: ApiAccess, holder: str) -> Turn:
    return Turn(BlockingClient(account), "kube-system", "installer", holder)


def test_the_second_gets_it_once_the_first_has_given_it_back(account: ApiAccess) -> None:
    first, second = turn(account, "n1"), turn(account, "n2")
    assert first.look() == LeaseState()
    assert (first.take(), second.take(), first.take()) == (True, False, True)
    second.release()  # not its own
    assert second.look() == LeaseState("n1")
    first.release()
    assert (second.take(), first.look()) == (True, LeaseState("n2"))


def test_a_failure_keeps_it_until_the_holder_or_a_person_begins_again(account: ApiAccess, server: ApiServer) -> None:
    first, second = turn(account, "n1"), turn(account, "n2")
    first.take()
    first.fail("not ready")
    assert second.take() is False
    assert second.look() == LeaseState("n1", "not ready")
    first.take()
    assert first.look() == LeaseState("n1")
    first.fail("again")
    del server.objects[PATH]
    assert (second.take(), second.look()) == (True, LeaseState("n2"))


def test_of_two_that_looked_at_the_same_time_one_gets_it(account: ApiAccess, server: ApiServer) -> None:
    first, second = turn(account, "n1"), turn(account, "n2")
    first.take()
    first.release()

    def first_is_faster(method: str, path: str) -> int:
        if method == "PATCH":
            server.put(PATH, {**server.objects[PATH], "spec": {"holderIdentity": "n1"}})
        return 0

    server.refuse = first_is_faster
    assert second.take() is False
    assert second.look() == LeaseState("n1")


def test_it_shows_that_the_work_goes_on(account: ApiAccess, server: ApiServer) -> None:
    ours = turn(account, "n1")
    ours.take()
    before = server.objects[PATH]["spec"]["renewTime"]
    ours.renew()
    assert server.objects[PATH]["spec"]["renewTime"] > before


def test_a_refusal_of_the_server_is_told(account: ApiAccess, server: ApiServer) -> None:
    server.refuse = lambda method, path: 403 if method == "POST" else 0
    with pytest.raises(CriProxyError, match="403"):
        turn(account, "n1").take()


def test_what_is_no_lease_is_an_error(account: ApiAccess, server: ApiServer) -> None:
    server.objects[PATH] = {"metadata": [], "spec": 1}
    with pytest.raises(CriProxyError, match="no Lease"):
        turn(account, "n1").look()
