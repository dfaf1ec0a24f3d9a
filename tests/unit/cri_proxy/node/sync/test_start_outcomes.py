import pytest

from cri_proxy.cri_client.pods import PodSpec
from cri_proxy.node.barrier import Ticket
from cri_proxy.node.sync.start_outcomes import LOOK_SECONDS, LOOKS
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.stage import SHARES, background, direct, soon


async def left_starting(site: Site) -> str:
    """A container whose start was sent, and whose caller has left."""
    spec = PodSpec("s", (SHARES,))
    container_id = await site.kubelet.create(spec, SHARES, await site.kubelet.run_sandbox(spec))
    ticket = await site.node.barrier.before_start(container_id)
    assert isinstance(ticket, Ticket)
    site.node.barrier.left(ticket)
    return container_id


@pytest.mark.parametrize("ending", ["runs", "is removed", "exits"])
async def test_a_start_without_answer_is_over_when_the_container_is_no_longer_created(ending: str, site: Site) -> None:
    container_id = await left_starting(site)
    begun_at = site.clock.now_seconds()
    asking = background(site.node.resync.await_start(container_id))
    await soon(lambda: site.clock.now_seconds() > begun_at)
    assert container_id in site.node.context.ledger.starts
    match ending:
        case "runs":
            await direct(site).start(container_id)
        case "is removed":
            await direct(site).remove(container_id)
        case _:
            await direct(site).start(container_id)
            site.runtime.exit(container_id)
    await asking
    assert container_id not in site.node.context.ledger.starts


async def test_a_start_that_never_comes_is_asked_for_so_often_and_expected_from_then_on(site: Site) -> None:
    container_id = await left_starting(site)
    await site.node.resync.await_start(container_id)
    await site.node.resync.check_all("slow check")
    assert container_id in site.node.context.ledger.starts


async def test_a_runtime_that_was_restarted_starts_nothing_that_its_former_process_was_to_start(site: Site) -> None:
    container_id = await left_starting(site)
    site.runtime.restart()
    await site.node.resync.check_all("at once")
    assert container_id in site.node.context.ledger.starts, "a shim may have been about to"
    await site.clock.sleep(LOOKS * LOOK_SECONDS)
    await site.node.resync.check_all("slow check")
    assert container_id not in site.node.context.ledger.starts
