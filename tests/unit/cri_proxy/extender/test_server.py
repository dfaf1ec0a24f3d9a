"""The extender over HTTP on loopback, asked as kube-scheduler asks it: the story and the tests of KEP-690."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.errors import CommandFailed
from cri_proxy.extender.server import MAX_QUESTION_BYTES, ExtenderServer, serve
from cri_proxy.link_file import read_link_document
from cri_proxy.logs import configure_logging
from cri_proxy.yaml_fields import YamlField
from policies.devices.links import labels_of, link_annotation
from tests.fakes.reference import reference_seconds
from tests.fakes.scheduler import arguments, exchanged, filtered, named_arguments, node, pod, prioritized

STORY = Path(__file__).parents[4] / "configs" / "links" / "story.yaml"
NVLINKS, PCIE_ONLY = (
    link_annotation(read_link_document(root))
    for root in YamlField.documents(STORY.read_text(), "story", Dialect(1 << 20, 20, 10_000))
)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ExtenderServer]:
    server = ExtenderServer(log=configure_logging("error", "json"), directory=tmp_path)
    await server.open("127.0.0.1:0")
    yield server
    await server.close()


@pytest.mark.parametrize("gpus", [2, 3, 4, 8])
async def test_the_node_with_nvlinks_is_ahead_of_the_one_without(server: ExtenderServer, gpus: int) -> None:
    nodes = [node("node-1", NVLINKS), node("node-2", PCIE_ONLY)]
    answer = await prioritized(server.addresses[0], arguments(pod(gpus), nodes))
    first, second = answer
    assert (first["Host"], second["Host"]) == ("node-1", "node-2")
    assert 0 <= second["Score"] < first["Score"] <= 10


async def test_labels_of_node_feature_discovery_are_as_good_as_an_annotation(server: ExtenderServer) -> None:
    nodes = [node("node-1", labels=labels_of(NVLINKS)), node("node-2", PCIE_ONLY)]
    first, second = await prioritized(server.addresses[0], arguments(pod(2), nodes))
    assert first["Score"] > second["Score"]


@pytest.mark.parametrize("gpus", [0, 1])
async def test_a_pod_without_gpus_or_with_one_prefers_none(server: ExtenderServer, gpus: int) -> None:
    nodes = [node("node-1", NVLINKS), node("node-2", PCIE_ONLY), node("node-3")]
    question = arguments(pod(gpus), nodes)
    assert [row["Score"] for row in await prioritized(server.addresses[0], question)] == [0, 0, 0]
    assert (await filtered(server.addresses[0], question))["Nodes"] == question["Nodes"]


async def test_without_any_topology_all_nodes_stay_and_are_alike(server: ExtenderServer) -> None:
    question = arguments(pod(4), [node("node-1"), node("node-2")])
    assert [row["Score"] for row in await prioritized(server.addresses[0], question)] == [0, 0]
    assert (await filtered(server.addresses[0], question))["Nodes"] == question["Nodes"]


async def test_many_nodes_are_ranked_by_their_exact_scores(server: ExtenderServer) -> None:
    """Nodes with one NVLink more each: eleven scores that differ, though KEP-690's integers would not."""
    nodes = [node(f"node-{links}", f"v1.0t7.ux8.v{links}sx27") for links in range(1, 12)]
    answer = await prioritized(server.addresses[0], arguments(pod(8), nodes))
    assert [row["Score"] for row in answer] == list(range(11))


async def test_names_alone_are_answered_from_files(server: ExtenderServer, tmp_path: Path) -> None:
    (tmp_path / "node-1").write_text(NVLINKS)
    (tmp_path / "node-2").write_text(PCIE_ONLY)
    question = named_arguments(pod(2), ["node-1", "node-2", "node-3"])
    scores = {row["Host"]: row["Score"] for row in await prioritized(server.addresses[0], question)}
    assert scores["node-1"] > scores["node-2"] > scores["node-3"] == 0
    too_many = named_arguments(pod(9), ["node-1", "node-2", "node-3"])
    assert (await filtered(server.addresses[0], too_many))["NodeNames"] == ["node-3"]


async def test_it_says_that_it_is_well_and_what_it_has_done(server: ExtenderServer) -> None:
    address = server.addresses[0]
    await prioritized(address, arguments(pod(2), [node("a", NVLINKS), node("b"), node("c", "v9")]))
    for path in ("/livez", "/readyz", "/healthz"):
        assert await exchanged(address, "GET", path) == (200, b"ok\n")
    _, metrics = await exchanged(address, "GET", "/metrics")
    assert b'cri_proxy_extender_requests_total{verb="prioritize",outcome="answered"} 1.0\n' in metrics.replace(
        b'outcome="answered",verb="prioritize"', b'verb="prioritize",outcome="answered"'
    )
    for state in (b"scored", b"unpublished", b"malformed"):
        assert b'cri_proxy_extender_nodes_total{state="%s"} 1.0\n' % state in metrics


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/extender/prioritize", b"{}", 400),
        ("POST", "/extender/prioritize", b"[" * 100_000, 400),
        ("GET", "/extender/filter", b"", 405),
        ("POST", "/extender/bind", b"{}", 405),
        ("GET", "/api/v1/status", b"", 404),
    ],
)
async def test_anything_else_is_refused(
    server: ExtenderServer, method: str, path: str, body: bytes, status: int
) -> None:
    assert (await exchanged(server.addresses[0], method, path, body))[0] == status


async def test_a_question_that_is_too_large_is_refused_before_it_is_sent(server: ExtenderServer) -> None:
    reader, writer = await asyncio.open_connection(*server.addresses[0])
    writer.write(b"POST /extender/filter HTTP/1.1\r\nHost: localhost\r\n")
    writer.write(b"Content-Length: %d\r\n\r\n" % (MAX_QUESTION_BYTES + 1))
    assert b" 413 " in await reader.readline()
    writer.close()


async def test_five_hundred_nodes_are_answered_in_well_under_a_second_of_work(server: ExtenderServer) -> None:
    """In rounds of a reference loop, so that a busy machine does not matter: 30,000,000 are about a second."""
    images = [{"names": [f"registry.example/app-{i}@sha256:{'0' * 64}"], "sizeBytes": 1 << 27} for i in range(50)]
    nodes = [node(f"node-{i}", NVLINKS if i % 2 else PCIE_ONLY) for i in range(500)]
    for each in nodes:
        each["status"]["images"] = images
    body = json.dumps(arguments(pod(4), nodes)).encode()
    a_round = reference_seconds(100_000) / 100_000
    began_seconds = time.process_time()
    status, answer = await exchanged(server.addresses[0], "POST", "/extender/prioritize", body)
    rounds = (time.process_time() - began_seconds) / a_round
    assert (status, len(json.loads(answer))) == (200, 500)
    assert rounds < 30_000_000


async def test_who_is_being_answered_is_answered_at_the_end_too(server: ExtenderServer) -> None:
    """The first half of a question is there when the end comes."""
    body = json.dumps(arguments(pod(2), [node("a", NVLINKS)])).encode()
    reader, writer = await asyncio.open_connection(*server.addresses[0])
    writer.write(b"POST /extender/prioritize HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body))
    writer.write(body[:100])
    await exchanged(server.addresses[0], "GET", "/livez")  # so that ours has arrived
    closing = asyncio.gather(server.close())
    writer.write(body[100:])
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    await closing
    writer.close()


async def test_a_taken_port_is_a_sentence_with_a_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        server = ExtenderServer(log=configure_logging("error", "json"))
        with pytest.raises(CommandFailed, match=r": the port is taken; --http names another address"):
            await serve(server, address, asyncio.Event().wait)
