import asyncio

from cri_proxy.cri_client.pods import ContainerSpec, guaranteed
from cri_proxy.node.effects import AT_ONCE
from cri_proxy.state.rows import Row
from tests.fakes.grants import small_policy
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.stage import background, entered, soon

UPDATE = "UpdateContainerResources"
MANY = 2 * AT_ONCE + 1


async def moved(site: Site) -> list[Row]:
    """Many that share, of both packages, each of which has just lost a CPU: all must be updated."""
    for number in range(MANY):
        await site.run(f"s{number}", ContainerSpec("c", cpu_request_mcpu=50))
    ledger = site.node.context.ledger
    ledger.use_policy(small_policy(reserved="0-1,4"), ledger.allocations)
    assert len(ledger.unmet()) == MANY
    return list(ledger.unmet())


async def test_a_few_are_moved_at_the_same_time_and_all_in_the_end(site: Site) -> None:
    await moved(site)
    gate = site.runtime.faults.block(UPDATE)
    site.node.effects.schedule()
    await entered(gate)
    await soon(lambda: gate.waiting == AT_ONCE)
    assert len(site.node.effects._updates) == AT_ONCE  # a task for each of the others would take kilobytes
    gate.release()
    await site.node.settle()
    assert (len(site.runtime.updates), site.node.context.ledger.unmet()) == (MANY, ())


async def test_closing_begins_none_of_those_that_wait(site: Site) -> None:
    await moved(site)
    gate = site.runtime.faults.block(UPDATE)
    site.node.effects.schedule()
    await soon(lambda: gate.waiting == AT_ONCE)
    async with asyncio.timeout(20):
        await site.node.effects.close()
    assert (len(site.node.effects._updates), site.runtime.updates) == (0, ())


async def test_a_start_waits_for_nobody_but_whom_it_needs(site: Site) -> None:
    """Of those that are still to be moved, whoever sits on its CPUs is moved at once."""
    await moved(site)
    gate = site.runtime.faults.block(UPDATE)
    site.node.effects.schedule()
    await soon(lambda: gate.waiting == AT_ONCE)
    start = background(site.run("owns", guaranteed("c", 1000)))
    await soon(lambda: gate.waiting > AT_ONCE)
    gate.release()
    await start


async def test_whoever_waits_for_a_start_of_its_own_keeps_nobody_else_waiting(site: Site) -> None:
    rows = await moved(site)
    locks = [site.node.effects.lock(row.key) for row in rows[:AT_ONCE]]
    for lock in locks:
        await lock.acquire()
    site.node.effects.schedule()
    await soon(lambda: len(site.runtime.updates) == MANY - AT_ONCE)
    for lock in locks:
        lock.release()
    await site.node.settle()
    assert len(site.runtime.updates) == MANY
