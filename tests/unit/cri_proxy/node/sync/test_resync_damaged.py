"""Lists and statuses of a runtime that cannot be read, in whole or in part."""

from collections.abc import Callable

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.node.status.view import NodeView
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.stage import direct, owned

OWNS_2 = guaranteed("c", 2000)
SHARES = ContainerSpec("c", cpu_request_mcpu=100)
GARBAGE = b"\xff\xff\xff"


def about(site: Site, container_id: str, *, damage: Callable[[bytes], bytes]) -> Callable[[bytes, bytes], bytes]:
    """What damages one container in a list."""

    def change(_: bytes, reply: bytes) -> bytes:
        items = pb.ListContainersResponse.FromString(reply).containers
        parts = [pb.ListContainersResponse(containers=[item]).SerializeToString() for item in items]
        return b"".join(
            damage(part) if item.id == container_id else part for item, part in zip(items, parts, strict=True)
        )

    return change


def loses_its_id(part: bytes) -> bytes:
    item = pb.ListContainersResponse.FromString(part).containers[0].id.encode()
    return part.replace(item, b"\xff" * len(item))


def loses_an_annotation(part: bytes) -> bytes:
    return part.replace(b"cri-proxy.io/", b"cri-proxy\xff\xff\xff/")


@pytest.mark.parametrize("damage", [loses_its_id, loses_an_annotation])
async def test_a_damaged_item_hides_no_other_and_its_container_keeps_what_it_has(
    damage: Callable[[bytes], bytes], site: Site
) -> None:
    damaged = (await site.run("a", OWNS_2)).container_id("c")
    ended = (await site.run("b", OWNS_2)).container_id("c")
    stranger = (await direct(site).run_pod(PodSpec("s", (SHARES,)))).container_id("c")
    site.runtime.faults.rewrite("ListContainers", about(site, damaged, damage=damage))
    site.runtime.exit(ended)
    await site.node.resync.check_all("test")
    await site.node.settle()
    assert {row.container_id for row in site.node.context.ledger.active()} == {damaged, ended, stranger} - {ended}
    assert len(owned(site, damaged)) == 2


async def test_what_is_not_listed_stays_while_an_item_cannot_be_read_and_goes_afterwards(site: Site) -> None:
    """It may be that item."""
    gone, pod = (await site.run("a", OWNS_2)).container_id("c"), await site.run("b", OWNS_2)
    site.runtime.faults.rewrite("ListContainers", about(site, pod.container_id("c"), damage=loses_its_id))
    del site.runtime.node.containers[gone]
    await site.node.resync.check_all("test")
    assert {row.container_id for row in site.node.context.ledger.active()} == {gone, pod.container_id("c")}
    assert site.log.warnings.count("unreadable_reply") == 1
    site.runtime.faults.clear()
    await site.node.resync.check_all("test")
    assert {row.container_id for row in site.node.context.ledger.active()} == {pod.container_id("c")}


async def test_a_sandbox_that_cannot_be_read_is_not_forgotten(site: Site) -> None:
    pod = await site.run("a", OWNS_2)
    site.runtime.exit(pod.container_id("c"))
    site.runtime.faults.rewrite("ListPodSandbox", lambda _, reply: reply.replace(pod.sandbox_id.encode(), b"\xff" * 64))
    await site.node.resync.check_all("test")
    assert pod.sandbox_id in site.node.context.ledger.sandboxes


async def test_a_new_process_keeps_what_it_cannot_see(site: Site) -> None:
    damaged, other = (await site.run("a", OWNS_2)).container_id("c"), (await site.run("b", OWNS_2)).container_id("c")
    before = owned(site, damaged), owned(site, other)
    site.runtime.faults.rewrite("ListContainers", about(site, damaged, damage=loses_its_id))
    await site.open()
    assert (owned(site, damaged), owned(site, other)) == before
    assert site.store.load().rows == tuple(site.node.context.ledger.rows())


@pytest.mark.parametrize("method", ["ListContainers", "ListPodSandbox"])
async def test_a_list_that_is_none_is_a_failed_check(method: str, site: Site) -> None:
    container = (await site.run("a", OWNS_2)).container_id("c")
    site.runtime.faults.rewrite(method, lambda _, __: GARBAGE)
    await site.node.resync.check_all("test")
    assert "cannot be read" in site.node.resync.problem
    assert site.row(container).state == "running"


async def test_a_status_that_cannot_be_read_keeps_no_other_from_its_place(site: Site) -> None:
    strangers = [(await direct(site).run_pod(PodSpec(n, (SHARES,)))).container_id("c") for n in ("a", "b")]
    first = strangers[0].encode()
    site.runtime.faults.rewrite("ContainerStatus", lambda asked, reply: GARBAGE if first in asked else reply)
    await site.node.resync.check_all("test")
    assert [row.container_id for row in site.node.context.ledger.active()] == strangers[1:]
    (warning,) = warnings(site)
    assert warning.startswith("container c is not pinned: /runtime.v1.RuntimeService/ContainerStatus: status 13: the ")


def warnings(site: Site) -> list[str]:
    view = NodeView(site.node, name="n")
    return list(view.status().warnings)


async def test_a_status_of_another_container_is_not_taken_for_its_own(site: Site) -> None:
    """As of a peer that answers everything alike: all would be one."""
    for name in ("a", "b"):
        await direct(site).run_pod(PodSpec(name, (SHARES,)))
    site.runtime.faults.rewrite("ContainerStatus", lambda _, __: b"")
    await site.node.resync.check_all("test")
    assert site.node.context.ledger.active() == ()
    assert site.log.warnings.count("not_adopted") == 2
