from dataclasses import replace

from cri_proxy.config.model import Config
from cri_proxy.cri_client import pods
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.node.sync import runtime_state
from cri_proxy.node.sync.adoption import Adopted, Adoption
from cri_proxy.node.sync.runtime_state import LiveContainer
from policies.base import ContainerKey, CpuKind, Grant, Pinning, QosClass
from sysfs.cpuset import CpuSet
from tests.fakes.embedded_calls import Calls
from tests.fakes.grants import request
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.stage import direct


def adoption(site: Site, rules: Config | None = None) -> Adoption:
    chosen = rules or Config()
    return Adoption(site.node.context, lambda: chosen)


async def listed(site: Site) -> tuple[LiveContainer, ...]:
    return (await runtime_state.list_node(site.runtime)).containers


def found(name: str, mcpu: int, qos: QosClass, created: int = 1) -> Adopted:
    container = LiveContainer(f"id-{name}", "s", ContainerKey("p", name), "running", created)
    return Adopted(container, request(name, mcpu, qos=qos), Pinning(None, None), None)


def test_they_are_placed_by_qos_class_then_size_then_age() -> None:
    ones = [
        found("best effort", 0, QosClass.BEST_EFFORT),
        found("burstable", 4000, QosClass.BURSTABLE),
        found("young", 2000, QosClass.GUARANTEED, created=2),
        found("old", 2000, QosClass.GUARANTEED, created=1),
        found("large", 3000, QosClass.GUARANTEED, created=3),
    ]
    order = [each.request.container.name for each in sorted(ones, key=lambda each: each.rank)]
    assert order == ["large", "old", "young", "burstable", "best effort"]


def test_fractions_of_a_cpu_make_none_older() -> None:
    ones = [found("young", 2900, QosClass.GUARANTEED, created=2), found("old", 2100, QosClass.GUARANTEED)]
    assert [each.request.container.name for each in sorted(ones, key=lambda each: each.rank)] == ["old", "young"]


async def test_one_that_was_made_through_us_is_rebuilt_from_its_annotation(site: Site) -> None:
    a = await site.run("a", guaranteed("c", 2500))
    (one,) = await adoption(site).read_all(await listed(site))
    row = site.row(a.container_id("c"))
    assert one.grant is not None
    assert (one.grant.owned, one.grant.shared_mcpu, one.pinning) == (row.grant.owned, 500, row.acknowledged)
    assert one.row(one.grant, 7).container_id == row.container_id


async def test_one_that_grew_since_it_was_made_is_known_to_have_its_other_cpus_later(site: Site) -> None:
    run = await site.run("a", guaranteed("c", 1000))
    small = CpuSet.parse(site.cpus(run.container_id("c")))
    size = pods.resources(run.spec, guaranteed("c", 3000), site.kubelet.node)
    await site.kubelet.update(run.container_id("c"), size)
    (one,) = await adoption(site).read_all(await listed(site))
    assert one.grant is not None
    assert one.grant.added == (one.grant.owned - small,)
    assert len(one.grant.owned) == 3


async def test_one_that_ends_before_it_is_read_is_left_out(site: Site) -> None:
    a = await site.run("a", guaranteed("c", 2000))
    ones = await listed(site)
    site.runtime.exit(a.container_id("c"))
    assert await adoption(site).read_all(ones) == ()
    site.runtime.node.containers.clear()
    assert await adoption(site).read_all(ones) == ()


async def test_without_a_cpuset_on_record_it_may_be_anywhere(site: Site) -> None:
    await direct(site).run_pod(PodSpec("a", (ContainerSpec("c"),)))
    (one,) = await adoption(site).read_all(await listed(site))
    assert (one.pinning, one.grant) == (Pinning(CpuSet.parse("0-7"), None), None)


async def test_left_alone_one_with_a_cpuset_has_it_withheld_and_one_without_nothing(site: Site) -> None:
    pinned = (await direct(site).run_pod(PodSpec("a", (ContainerSpec("c"),)))).container_id("c")
    await direct(site).run_pod(PodSpec("b", (ContainerSpec("c"),)))
    await Calls(site.runtime).update(pinned, cpuset_cpus="2-3")
    leaving = adoption(site, Config(adopt="leave"))
    assert await leaving.read_all(await listed(site)) == ()
    assert leaving.is_left(pinned)
    assert str(site.node.context.ledger.allocations.withheld) == "2-3"
    leaving.keep_left(set())
    assert (leaving.is_left(pinned), str(site.node.context.ledger.allocations.withheld)) == (False, "")


def test_a_cold_start_of_an_adopted_one_counts_from_its_creation() -> None:
    one = found("a", 1000, QosClass.GUARANTEED, created=5_000_000_000)
    asks = replace(one.request, preferences=replace(one.request.preferences, cold_start_seconds=60))
    grant = Grant(asks, "root", CpuKind.EXCLUSIVE, CpuSet.parse("1"), is_cold=True)
    assert one.row(grant, 1).warm_at_seconds == 65.0
    assert one.row(replace(grant, is_cold=False), 1).warm_at_seconds is None
    waiting = replace(one, container=replace(one.container, state="created"))
    assert waiting.row(grant, 1).warm_at_seconds is None


async def test_one_that_was_made_through_us_is_not_left_alone(site: Site) -> None:
    await site.run("a", guaranteed("c", 2000))
    await direct(site).run_pod(PodSpec("b", (ContainerSpec("c"),)))
    leaving = adoption(site, Config(adopt="leave"))
    assert [each.request.pod.name for each in await leaving.read_all(await listed(site))] == ["a"]
    assert [left.name for left in leaving.left()] == ["default/b/c"]


async def test_those_that_are_left_alone_stand_by_name_and_are_forgotten_when_options_change(site: Site) -> None:
    for name in ("b", "a"):
        container = (await direct(site).run_pod(PodSpec(name, (ContainerSpec("c"),)))).container_id("c")
        await Calls(site.runtime).update(container, cpuset_cpus="2-3")
    leaving = adoption(site, Config(adopt="leave"))
    await leaving.read_all(await listed(site))
    assert [left.name for left in leaving.left()] == ["default/a/c", "default/b/c"]
    assert (leaving.forget_left(), leaving.forget_left(), leaving.left()) == (True, False, ())
    assert not site.node.context.ledger.allocations.withheld


async def test_one_that_cannot_be_read_is_told_once_for_each_reason_and_read_again_when_options_change(
    site: Site,
) -> None:
    for name in ("b", "a"):
        await direct(site).run_pod(PodSpec(name, (ContainerSpec(name),)))
    ones, reading = await listed(site), adoption(site)
    for words in ("not now", "not now", "never"):
        site.runtime.faults.fail_next("ContainerStatus", 13, words, times=2)
        await reading.read_all(ones)
    assert site.log.warnings.count("not_adopted") == 4
    assert [each.name for each in reading.given_up()] == ["a", "b"]
    assert [each.pause_seconds for each in reading.given_up()] == [240.0, 240.0]
    assert all(map(reading.is_given_up, ones))
    reading.forget_left()
    assert not any(map(reading.is_given_up, ones))


async def test_one_that_has_ended_is_given_up_without_a_word(site: Site) -> None:
    run = await direct(site).run_pod(PodSpec("a", (ContainerSpec("c"),)))
    (one,) = await listed(site)
    site.runtime.exit(run.container_id("c"))
    reading = adoption(site)
    await reading.read_all([one])
    assert (reading.is_given_up(one), reading.given_up(), site.log.warnings) == (True, (), [])


async def test_containers_without_a_decision_wait_by_id_until_they_are_gone(site: Site) -> None:
    waiting = adoption(site)
    for container_id in ("c2", "c1"):
        waiting.note_unplaced(container_id)
    assert waiting.unplaced() == ("c1", "c2")
    waiting.keep_left({"c2"})
    assert waiting.unplaced() == ("c2",)
