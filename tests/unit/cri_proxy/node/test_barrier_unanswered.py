"""Starts and updates that the runtime does not answer, told on a loop whose time passes only while nothing happens."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from cri_proxy.config.model import Config
from cri_proxy.cri_client import pods
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.metrics import catalog
from cri_proxy.node.barrier import AGAIN_SECONDS, CLEAR_SECONDS, LOOK_SECONDS, OWN_CALL_SECONDS
from cri_proxy.node.pending_calls import UPDATE_TIMEOUT_SECONDS
from cri_proxy.node.rebalance import BUSY_SECONDS
from cri_proxy.node.status.gauges import node_samples
from cri_proxy.node.status.view import NodeView
from sysfs.cpuset import CpuSet
from tests.fakes.lone_loop import LoneLoop
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.stage import (
    BUSY,
    KUBELETS_PATIENCE_SECONDS,
    OWNS_2,
    REJECT,
    SHARES,
    START,
    background,
    created,
    direct,
    entered,
    given_up,
    hanging,
    is_alone,
    now,
    of,
    on_loop_time,
    owned,
)

UPDATE = "UpdateContainerResources"
SOON_SECONDS = 0.5
WHOLE = Config(sharers_start_on="pool")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"loop_factory": LoneLoop}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = await on_loop_time()
    yield site
    assert site.log.errors == []


@pytest.fixture
async def whole() -> AsyncIterator[Site]:
    """One pool, of which a container is created on all CPUs: CPUs 1 to 3."""
    site = await on_loop_time(WHOLE)
    await site.run("full", guaranteed("c", 4000))
    yield site
    assert site.log.errors == []


@pytest.fixture
async def busy(site: Site) -> None:
    await site.run("busy", BUSY)


@pytest.mark.usefixtures("busy")
async def test_who_needs_the_cpus_of_a_start_that_hangs_is_placed_elsewhere_after_a_bound(site: Site) -> None:
    _, gate, start = await hanging(site)
    owner, begun = await created(site, "a", OWNS_2), now()
    assert str(owned(site, owner)) == "1-2"
    await site.kubelet.start(owner)
    assert str(owned(site, owner)) == "4-5"
    assert CLEAR_SECONDS <= now() - begun < CLEAR_SECONDS + SOON_SECONDS
    gate.release()
    await start
    assert is_alone(site, owner)


@pytest.mark.parametrize("rules", [WHOLE, replace(REJECT, sharers_start_on="pool")], ids=["passthrough", "reject"])
async def test_without_another_place_it_is_refused_with_the_name_of_the_one_that_hangs(rules: Config) -> None:
    site = await on_loop_time(rules)
    await site.run("full", guaranteed("c", 4000))
    _, gate, start = await hanging(site)
    owner, begun = await created(site, "a", OWNS_2), now()
    with pytest.raises(CallFailed, match=r"default/s/c: the runtime has not answered its StartContainer for 5 s"):
        await site.kubelet.start(owner)
    assert now() - begun < 2 * CLEAR_SECONDS
    assert not site.runtime.node.containers[owner].running
    gate.release()
    await start
    await site.kubelet.start(owner)
    assert is_alone(site, owner)


@pytest.mark.usefixtures("busy")
async def test_while_it_is_known_to_hang_others_do_not_wait_in_vain_again(site: Site) -> None:
    _, gate, start = await hanging(site)
    await asyncio.sleep(CLEAR_SECONDS)
    begun = now()
    await site.kubelet.start(owner := await created(site, "a", OWNS_2))
    assert now() - begun < SOON_SECONDS
    gate.release()
    await start
    assert is_alone(site, owner)


@pytest.mark.usefixtures("busy")
async def test_a_start_that_ends_in_time_is_waited_for(site: Site) -> None:
    _, gate, start = await hanging(site)
    second = background(site.kubelet.start(owner := await created(site, "a", OWNS_2)))
    await asyncio.sleep(CLEAR_SECONDS - 1)
    gate.release()
    await asyncio.gather(start, second)
    assert str(owned(site, owner)) == "1-2"
    assert is_alone(site, owner)


async def test_when_it_comes_alive_at_last_it_is_updated_at_once(whole: Site) -> None:
    sharer, gate, start = await hanging(whole)
    owner = await created(whole, "a", OWNS_2)
    with pytest.raises(CallFailed):
        await whole.kubelet.start(owner)
    assert whole.runtime.updates == ()
    gate.release()
    await start
    await asyncio.sleep(SOON_SECONDS)
    assert (whole.cpus(sharer), str(owned(whole, owner))) == ("3", "1-2")


async def test_after_the_kubelet_has_given_up_its_cpus_are_still_nobodys(whole: Site) -> None:
    """However long: the runtime may go on with it, on the CPUs that it had when the start was sent."""
    sharer, gate, start = await hanging(whole)
    await given_up(start)
    await asyncio.sleep(3600)
    owner, begun = await created(whole, "a", OWNS_2), now()
    with pytest.raises(CallFailed, match=r"default/s/c: the runtime has not answered its StartContainer for 37\d\d s"):
        await whole.kubelet.start(owner)
    assert now() - begun < 2 * CLEAR_SECONDS
    gate.release()
    await asyncio.sleep(SOON_SECONDS)
    await whole.node.resync.check_all("slow check")
    await whole.node.settle()
    await whole.kubelet.start(owner)
    assert (whole.cpus(sharer), is_alone(whole, owner)) == ("3", True)


@pytest.mark.usefixtures("busy")
async def test_a_new_attempt_starts_while_the_old_one_hangs_and_the_old_ones_cpus_are_still_nobodys(site: Site) -> None:
    """The kubelet creates another attempt of a container that it could not start."""
    old, gate, start = await hanging(site)
    await given_up(start)
    row = site.row(old)
    spec = PodSpec("s", (SHARES,))
    new = await site.kubelet.create(spec, SHARES, row.sandbox_id, attempt=1)
    await site.kubelet.start(new)
    assert site.node.context.ledger.holder(old) is None
    await site.kubelet.start(owner := await created(site, "a", OWNS_2))
    gate.release()
    await asyncio.sleep(SOON_SECONDS)
    assert site.runtime.node.containers[old].running
    assert is_alone(site, owner)
    site.runtime.exit(old)
    await site.node.resync.check_all("slow check")
    assert len(site.node.context.ledger.starts) == 0


async def test_a_container_that_is_stopped_before_it_comes_alive_keeps_its_cpus_until_its_sandbox_goes(
    whole: Site,
) -> None:
    """containerd takes a stop of a created container, and starts it all the same."""
    sharer, gate, start = await hanging(whole)
    await given_up(start)
    await whole.kubelet.stop(sharer)
    owner = await created(whole, "a", OWNS_2)
    with pytest.raises(CallFailed, match="default/s/c"):
        await whole.kubelet.start(owner)
    gate.release()
    await direct(whole).stop(sharer)
    await whole.kubelet.remove(sharer)
    await whole.kubelet.start(owner)
    assert len(whole.node.context.ledger.starts) == 0


@pytest.mark.usefixtures("busy")
async def test_an_update_that_hangs_makes_the_start_choose_other_cpus(site: Site) -> None:
    sharer = (await site.run("s", SHARES)).container_id("c")
    gate = site.runtime.faults.hang(UPDATE, of(sharer))
    owner, begun = await created(site, "a", OWNS_2), now()
    await site.kubelet.start(owner)
    assert str(owned(site, owner)) == "4-5"
    assert UPDATE_TIMEOUT_SECONDS <= now() - begun < UPDATE_TIMEOUT_SECONDS + LOOK_SECONDS + SOON_SECONDS
    gate.release()
    await asyncio.sleep(2 * UPDATE_TIMEOUT_SECONDS)
    assert site.cpus(sharer) == "1-3"


async def test_updates_that_are_on_their_way_in_a_slow_runtime_are_waited_for(site: Site) -> None:
    """Calls of 8 seconds: each exclusive container starts at the first try, on the CPUs that it was created with."""
    for name in ("s", "t"):
        await site.run(name, ContainerSpec("c"))
    for method in (START, UPDATE):
        site.runtime.faults.delay(method, 8)
    owners = [await created(site, f"a{number}", OWNS_2) for number in range(3)]
    places = [str(owned(site, owner)) for owner in owners]
    begun = now()
    await asyncio.gather(*(site.kubelet.start(owner) for owner in owners))
    assert [str(owned(site, owner)) for owner in owners] == places
    assert all(is_alone(site, owner) for owner in owners)
    assert now() - begun < KUBELETS_PATIENCE_SECONDS / 2


async def test_an_owner_starts_at_the_first_try_beside_hundreds_that_share_in_a_slow_runtime(site: Site) -> None:
    for number in range(250):
        await site.run(f"s{number}", ContainerSpec("c"))
    site.runtime.faults.delay(UPDATE, 8)
    owner, begun = await created(site, "a", OWNS_2), now()
    await site.kubelet.start(owner)
    assert is_alone(site, owner)
    assert now() - begun < KUBELETS_PATIENCE_SECONDS / 2


async def test_updates_are_waited_for_until_half_of_the_callers_time_is_over(site: Site) -> None:
    await site.run("full", guaranteed("c", 4000))
    await site.run("s", SHARES)
    site.runtime.faults.delay(UPDATE, 9)
    owner, begun = await created(site, "a", OWNS_2), now()
    site.kubelet.call_seconds = 14
    with pytest.raises(CallFailed, match=r"default/s/c: the runtime has not answered its UpdateContainerRes.* for 7 s"):
        await site.kubelet.start(owner)
    assert 7 <= now() - begun < 7 + SOON_SECONDS
    site.kubelet.call_seconds = 20
    await site.kubelet.start(owner)
    assert is_alone(site, owner)


@pytest.mark.usefixtures("busy")
async def test_a_start_that_stops_waiting_cancels_no_update(site: Site) -> None:
    """Else a runtime that needs longer than starts wait would never finish one."""
    sharer = (await site.run("s", SHARES)).container_id("c")
    gate = site.runtime.faults.hang(UPDATE, of(sharer))
    owner = await created(site, "a", OWNS_2)
    start = background(site.kubelet.start(owner))
    await entered(gate)
    start.cancel()
    await asyncio.wait([start])
    gate.release()
    await asyncio.sleep(SOON_SECONDS)
    assert site.cpus(sharer) == "3"
    assert site.runtime.calls[UPDATE] == 1


async def test_another_start_of_the_same_container_is_refused_after_a_bound(site: Site) -> None:
    sharer, gate, start = await hanging(site)
    begun = now()
    with pytest.raises(CallFailed, match=r"another call about this container is under way: default/s/c: .* StartCont"):
        await site.kubelet.start(sharer)
    assert OWN_CALL_SECONDS <= now() - begun < OWN_CALL_SECONDS + SOON_SECONDS
    gate.release()
    await start


async def test_a_start_that_was_given_up_and_never_carried_out_may_be_made_again(site: Site) -> None:
    site.runtime.starts_outlive_callers = False
    container = await created(site, "s", SHARES)
    gate = site.runtime.faults.hang(START, of(container))
    start = background(site.kubelet.start(container))
    await entered(gate)
    start.cancel()
    await asyncio.wait([start])
    site.runtime.faults.clear()
    begun = now()
    await site.kubelet.start(container)
    assert site.runtime.node.containers[container].running
    assert now() - begun < AGAIN_SECONDS + SOON_SECONDS
    assert len(site.node.context.ledger.starts) == 0


@pytest.mark.usefixtures("busy")
async def test_while_the_runtime_refuses_to_start_it_again_the_first_start_may_still_come(site: Site) -> None:
    container, gate, start = await hanging(site)
    start.cancel()
    await asyncio.wait([start])
    with pytest.raises(CallFailed, match="starting state"):
        await site.kubelet.start(container)
    assert container in site.node.context.ledger.starts
    owner = await created(site, "a", OWNS_2)
    await site.kubelet.start(owner)
    gate.release()
    await asyncio.sleep(SOON_SECONDS)
    assert site.runtime.node.containers[container].running
    assert is_alone(site, owner)


async def test_a_resize_does_not_wait_longer_than_a_start_and_takes_no_cpu_of_the_one_that_hangs(site: Site) -> None:
    grower = await site.run("g", guaranteed("c", 1000))
    _, gate, start = await hanging(site)
    begun = now()
    grown = pods.resources(grower.spec, guaranteed("c", 3000), site.kubelet.node)
    await site.kubelet.update(grower.container_id("c"), grown)
    assert now() - begun < CLEAR_SECONDS + SOON_SECONDS
    gate.release()
    await start
    assert is_alone(site, grower.container_id("c"))
    await asyncio.sleep(SOON_SECONDS)
    assert len(CpuSet.parse(site.cpus(grower.container_id("c")))) == 3


async def test_several_that_hang_cost_two_waits_at_most_and_are_all_named(site: Site) -> None:
    ones = [await hanging(site, name) for name in ("s", "t", "u", "v")]
    owner, begun = await created(site, "a", OWNS_2), now()
    with pytest.raises(CallFailed, match=r"default/s/c: .* default/u/c: "):
        await site.kubelet.start(owner)
    assert now() - begun < 2 * CLEAR_SECONDS + SOON_SECONDS
    for _, gate, start in ones:
        gate.release()
        await start
    await site.kubelet.start(owner)
    assert is_alone(site, owner)


async def test_nothing_is_left_behind_when_the_call_ends_by_the_loss_of_the_connection(whole: Site) -> None:
    sharer, _, start = await hanging(whole)
    for number in range(5):
        with pytest.raises(CallFailed):
            await whole.kubelet.start(await created(whole, f"a{number}", guaranteed("c", 1000)))
    whole.runtime.go_away()
    with pytest.raises(RuntimeUnavailable):
        await start
    whole.runtime.come_back()
    await asyncio.sleep(60)
    await whole.node.resync.check_all("slow check")
    await asyncio.sleep(60)
    assert len(whole.node.context.ledger.starts) == 0
    assert not whole.node.effects.is_busy(whole.row(sharer).key)
    assert len(whole.node.context.tasks) == 0
    others = [
        t for t in asyncio.all_tasks() if t is not asyncio.current_task() and not t.get_name().startswith("Task-")
    ]
    assert others == []


async def test_releases_while_a_call_hangs_leave_no_tasks_behind(site: Site) -> None:
    _, gate, start = await hanging(site)
    for number in range(20):
        pod = await site.kubelet.run_pod(PodSpec(f"p{number}", (ContainerSpec("c"),)))
        await site.kubelet.remove_pod(pod.sandbox_id)
    await asyncio.sleep(BUSY_SECONDS + SOON_SECONDS)
    assert len(site.node.context.tasks) == 0
    gate.release()
    await start


async def test_the_kubelets_own_update_that_hangs_keeps_no_start_waiting(site: Site) -> None:
    sharer = await site.run("s", SHARES)
    gate = site.runtime.faults.hang(UPDATE, of(sharer.container_id("c")))
    larger = pods.resources(sharer.spec, ContainerSpec("c", cpu_request_mcpu=600), site.kubelet.node)
    update = background(site.kubelet.update(sharer.container_id("c"), larger))
    await entered(gate)
    begun = now()
    await site.kubelet.start(owner := await created(site, "a", OWNS_2))
    assert now() - begun < UPDATE_TIMEOUT_SECONDS + LOOK_SECONDS + SOON_SECONDS
    gate.release()
    await update
    assert is_alone(site, owner)


def shown(site: Site) -> tuple[dict[str, float], list[str], list[str]]:
    """The unanswered calls by method; the notes of containers and the warnings that name one."""
    samples = (sample for sample in node_samples(site.node) if sample.metric is catalog.UNANSWERED)
    counts = {sample.labels[0]: float(str(sample.value)) for sample in samples}
    status = NodeView(site.node, name="n").status()
    notes = [note for container in status.containers for note in container.notes if "answered" in note]
    return counts, notes, [warning for warning in status.warnings if "answered" in warning]


async def test_status_metrics_and_explain_name_the_call_that_hangs(site: Site) -> None:
    old, gate, start = await hanging(site)
    await asyncio.sleep(1)
    assert shown(site) == ({START: 0, UPDATE: 0}, [], [])
    await asyncio.sleep(CLEAR_SECONDS)
    text = "the runtime has not answered its StartContainer for 6 s"
    assert shown(site) == ({START: 1, UPDATE: 0}, [text], [])
    view = NodeView(site.node, name="n")
    (explained,) = view.explain("default/s", None).decisions
    assert explained.container is not None
    assert text in explained.container.notes
    await given_up(start)
    spec = PodSpec("s", (SHARES,))
    await site.kubelet.start(await site.kubelet.create(spec, SHARES, site.row(old).sandbox_id, attempt=1))
    counts, notes, (warning,) = shown(site)
    assert (counts[START], notes) == (1, [])
    assert warning.startswith("default/s/c: the runtime has not answered its StartContainer for 126 s; it may still")
    gate.release()
