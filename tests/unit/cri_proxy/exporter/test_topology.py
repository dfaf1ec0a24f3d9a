import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cri_proxy.exporter.daemon import AdminClient
from cri_proxy.exporter.topology import LOOK_SECONDS, RESOURCE, TopologyPart, TopologyPublisher
from cri_proxy.http.messages import JSON, Response
from cri_proxy.http.server import AdminServer
from cri_proxy.kube_api.client import ApiRefused
from tests.fakes.api_server import ApiServer, Plain, Scripted
from tests.fakes.http import serving
from tests.fakes.site import InstantClock, Silent
from tests.unit.cri_proxy.kube_api.reach import NODE, client


def wanted(zone: str = "node-0") -> Plain:
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "n1", "annotations": {"topology.node.k8s.io/fingerprint": "pfp0v001"}},
        "attributes": [],
        "zones": [{"name": zone, "type": "Node"}],
    }


def metadata(server: ApiServer) -> Plain:
    found = server.objects[NODE]["metadata"]
    assert isinstance(found, dict)
    return found


async def test_it_is_created_and_then_replaced_when_it_changes(server: ApiServer, account: Path) -> None:
    publisher = TopologyPublisher(client(server, account))
    assert await publisher.publish(wanted())
    assert not await publisher.publish(wanted())
    assert await publisher.publish(wanted("node-1"))
    assert server.writes() == [f"POST {RESOURCE}", f"PUT {NODE}"]
    assert server.objects[NODE]["zones"] == wanted("node-1")["zones"]
    assert len([r for r in server.requests if r.method == "GET"]) == 1  # what was written is known


async def test_one_that_is_there_already_is_left_alone(server: ApiServer, account: Path) -> None:
    server.put(NODE, wanted())
    assert not await TopologyPublisher(client(server, account)).publish(wanted())
    assert server.writes() == []


async def test_what_others_add_to_it_stays(server: ApiServer, account: Path) -> None:
    theirs = wanted("old")
    theirs["metadata"] = {"name": "n1", "labels": {"a": "b"}, "annotations": {"c": "d"}, "managedFields": [{}]}
    server.put(NODE, theirs)
    await TopologyPublisher(client(server, account)).publish(wanted())
    assert metadata(server)["labels"] == {"a": "b"}
    assert metadata(server)["annotations"] == {"c": "d", "topology.node.k8s.io/fingerprint": "pfp0v001"}


async def test_a_conflict_is_read_and_written_again(server: ApiServer, account: Path) -> None:
    publisher = TopologyPublisher(client(server, account))
    await publisher.publish(wanted())
    server.put(NODE, {**wanted("theirs"), "metadata": {"name": "n1", "labels": {"a": "b"}}})
    await publisher.publish(wanted("node-1"))
    assert metadata(server)["labels"] == {"a": "b"}
    assert server.objects[NODE]["zones"] == wanted("node-1")["zones"]


async def test_one_that_was_deleted_is_created_again(server: ApiServer, account: Path) -> None:
    publisher = TopologyPublisher(client(server, account))
    await publisher.publish(wanted())
    del server.objects[NODE]
    await publisher.publish(wanted("node-1"))
    assert server.objects[NODE]["zones"] == wanted("node-1")["zones"]


@pytest.mark.parametrize("said", [Scripted(409, "Conflict"), Scripted(410, "Expired")])
async def test_what_has_been_overtaken_is_tried_again_and_not_for_ever(
    server: ApiServer, account: Path, said: Scripted
) -> None:
    publisher = TopologyPublisher(client(server, account))
    await publisher.publish(wanted())
    server.scripted = [said]
    await publisher.publish(wanted("node-1"))
    server.scripted = [said] * 5
    with pytest.raises(ApiRefused):
        await publisher.publish(wanted("node-2"))
    assert len(server.scripted) == 2


async def test_another_that_creates_it_first_is_no_failure(server: ApiServer, account: Path) -> None:
    server.scripted = [Scripted(404, "NotFound", before=lambda: server.put(NODE, wanted("theirs")))]
    assert await TopologyPublisher(client(server, account)).publish(wanted())
    assert server.objects[NODE]["zones"] == wanted()["zones"]


async def test_a_cluster_without_the_resource_is_asked_once(server: ApiServer, account: Path) -> None:
    server.scripted = [Scripted(404, raw=b"404 page not found\n")]
    with pytest.raises(ApiRefused, match="404 Not Found"):
        await TopologyPublisher(client(server, account)).publish(wanted())
    assert len(server.requests) == 1


async def test_a_failed_write_is_read_again_at_the_next_attempt(server: ApiServer, account: Path) -> None:
    """Whether it was made is not known."""
    publisher = TopologyPublisher(client(server, account))
    await publisher.publish(wanted())
    server.scripted = [Scripted(500)]
    with pytest.raises(ApiRefused):
        await publisher.publish(wanted("node-1"))
    assert await publisher.publish(wanted("node-1"))


def answering(text: Callable[[], str]) -> AdminServer:
    return AdminServer({"/api/v1/node-topology": lambda query: Response(200, JSON, text().encode())})


async def test_the_part_writes_when_the_daemon_says_something_new(
    server: ApiServer, account: Path, tmp_path: Path
) -> None:
    told = [wanted()]
    async with serving(tmp_path / "admin.sock", answering(lambda: json.dumps(told[-1]))):
        clock = InstantClock()
        part = TopologyPart(AdminClient(tmp_path / "admin.sock"), client(server, account), clock, Silent())
        await part.step()
        calls = len(server.requests)
        await part.step()
        assert len(server.requests) == calls  # nothing new, nothing asked
        told.append(wanted("node-1"))
        await part.step()
        assert server.objects[NODE]["zones"] == wanted("node-1")["zones"]


async def test_now_and_then_the_part_puts_right_what_another_has_changed(
    server: ApiServer, account: Path, tmp_path: Path
) -> None:
    async with serving(tmp_path / "admin.sock", answering(lambda: json.dumps(wanted()))):
        clock = InstantClock()
        part = TopologyPart(AdminClient(tmp_path / "admin.sock"), client(server, account), clock, Silent())
        await part.step()
        server.put(NODE, wanted("theirs"))
        await part.step()
        assert server.objects[NODE]["zones"] == wanted("theirs")["zones"]
        await clock.sleep(LOOK_SECONDS)
        await part.step()
        assert server.objects[NODE]["zones"] == wanted()["zones"]
