"""Containers without a grant whose CPUs were chosen elsewhere: they ran before the proxy, or its memory is lost."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from cri_proxy.config.model import Config
from cri_proxy.cri.annotations.resource_managers import RESOURCE_STATUS
from cri_proxy.cri.device_names.names import ToldDevices
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, create_request, guaranteed
from cri_proxy.file_workers import FilesFailed
from cri_proxy.node.reconfigure import reconfigure
from cri_proxy.node.sync.claims import ClaimSources, Settled, settle
from policies.base import Allocations, ContainerKey, Request
from policies.claims import CpuClaim
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from tests.fakes.embedded_calls import Calls
from tests.fakes.site import Site
from tests.fakes.store import MemoryStore
from tests.unit.cri_proxy.node.stage import direct
from tests.unit.policies.build import GUARANTEED, request, topology_aware

OWNS, SHARES = guaranteed("c", 2000), ContainerSpec("c", 500)
NAME = "dra.k8s.io/cpu=a"
POLICY = topology_aware(describe({"packages": 1, "cores": 8}), "0")


class Driver:
    """What the specification files of a CPU DRA driver say by device, and what the kubelet tells of it."""

    def __init__(self, **cpus: str) -> None:
        self.cpus = cpus
        self.told: tuple[str, ...] = ()
        self.hangs = False

    async def variables(self, names: Sequence[str]) -> Sequence[tuple[str, str]]:
        if self.hangs:
            raise FilesFailed("/var/run/cdi", "does not answer")
        known = ((f"DRA_CPUSET_{claim}", cpus) for claim, cpus in self.cpus.items())
        return [(name, cpus) for name, cpus in known if f"dra.k8s.io/cpu={name.rpartition('_')[2]}" in names]

    async def told_of(self, request: Request) -> ToldDevices:
        return ToldDevices(cdi=tuple((name, "podresapi:dra/pool/cpu") for name in self.told), is_known=True)


@asynccontextmanager
async def before(driver: Driver, rules: Config | None = None) -> AsyncIterator[Site]:
    """A node whose proxy is started again by ``install``; CPU 0 of 8 is reserved."""
    site = Site(rules=rules)
    site.claims = ClaimSources(driver.variables, driver.told_of)
    await site.open()
    yield site
    assert site.log.errors == []


async def install(site: Site) -> None:
    """Start a proxy that remembers nothing."""
    site.store = MemoryStore()
    await site.open()


async def runs(site: Site, name: str, *, cdi: str = "", env: str = "", cpus: str = "") -> str:
    """Run a pod past the proxy, whose container has this device or variable, and let an agent pin it."""
    spec, kubelet = PodSpec(name, (OWNS,)), direct(site)
    request = create_request(spec, OWNS, await kubelet.run_sandbox(spec), node=kubelet.node)
    if cdi:
        request.config.CDI_devices.add(name=cdi)
    if env:
        request.config.envs.add(key=env, value=b"2-3")
    container_id = await kubelet.create_as(request)
    await kubelet.start(container_id)
    if cpus:
        await Calls(site.runtime).update(container_id, cpuset_cpus=cpus)
    return container_id


async def koordinators(site: Site, cpus: str, *containers: ContainerSpec) -> RunningPod:
    """Run a pod past the proxy, for which Koordinator's scheduler has chosen these CPUs."""
    return await direct(site).run_pod(
        PodSpec("lsr", containers, annotations=((RESOURCE_STATUS, json.dumps({"cpuset": cpus})),))
    )


def found(name: str, cpus: str, **keys: object) -> Request:
    claim = CpuClaim(CpuSet.parse(cpus), f"DRA_CPUSET_{name[0]}")
    return request(name, 1000 * len(claim.cpus), GUARANTEED, claim=claim, **keys)


def settled(*requests: Request, live: str, of: int = 1) -> Settled:
    """Settle these on eight CPUs, 0 is reserved; claims of the first ``of`` were found, which run on ``live``."""
    those = [each.container for each in requests[:of]]
    return settle(POLICY, Allocations(), requests, dict.fromkeys(those, CpuSet.parse(live)), those)


def owned(settled: Settled) -> dict[str, str]:
    return {grant.container.pod_uid: str(grant.owned) for grant in settled.reinstated.allocations.grants}


def test_where_one_runs_that_misses_its_claim_nobody_else_owns_cpus() -> None:
    other = request("o/c", 5000, GUARANTEED)
    result = settled(found("a/c", "0-1"), other, live="2-3")
    assert (owned(result), list(result.missed)) == ({"o": "1,4-7"}, [ContainerKey("a", "c")])
    assert "CPU 0 is reserved" in result.missed[ContainerKey("a", "c")]


def test_one_that_misses_its_claim_and_can_run_anywhere_keeps_no_cpu_from_others() -> None:
    result = settled(found("a/c", "0-1"), request("o/c", 7000, GUARANTEED), live="0-7")
    assert owned(result) == {"o": "1-7"}


def test_one_that_is_known_from_its_annotation_keeps_what_is_left_of_its_claim() -> None:
    result = settled(found("a/c", "0-1"), live="2-3", of=0)
    assert (owned(result), result.missed) == ({"a": "1"}, {})


def test_a_cpuset_to_be_preserved_misses_no_claim() -> None:
    result = settled(found("a/c", "0-1", preserve_cpu=True), live="0-1")
    assert (owned(result), result.missed) == ({"a": ""}, {})


async def test_a_container_of_a_driver_owns_what_was_chosen_for_it() -> None:
    async with before(Driver(a="3,6")) as site:
        container = await runs(site, "web", cdi=NAME, cpus="3,6")
        await install(site)
        grant = site.row(container).grant
        assert (str(grant.owned), grant.request.claim and grant.request.claim.source) == ("3,6", "DRA_CPUSET_a")
        assert site.cpus(container) == "3,6"


async def test_one_that_no_agent_has_pinned_is_moved_to_its_claim() -> None:
    async with before(Driver(a="3,6")) as site:
        container = await runs(site, "web", cdi=NAME)
        await install(site)
        assert site.cpus(container) == "3,6"


async def test_a_node_without_a_kubelet_to_ask_finds_no_claim() -> None:
    async with before(Driver(a="3,6")) as site:
        container = await runs(site, "web", env="DRA_CPUSET_a")
        site.claims = ClaimSources()
        await install(site)
        assert site.row(container).grant.request.claim is None


async def test_a_variable_of_the_pod_itself_proves_nothing() -> None:
    async with before(Driver(a="3,6")) as site:
        container = await runs(site, "web", env="DRA_CPUSET_a")
        await install(site)
        assert site.row(container).grant.request.claim is None


async def test_the_kubelet_knows_the_devices_that_the_runtime_does_not() -> None:
    driver = Driver(a="3,6")
    async with before(driver) as site:
        container = await runs(site, "web", env="DRA_CPUSET_a")
        driver.told = (NAME,)
        await install(site)
        assert site.cpus(container) == "3,6"


async def test_containers_of_koordinators_pod_own_its_cpus_together() -> None:
    async with before(Driver()) as site:
        pod = await koordinators(site, "5-7", guaranteed("a", 2000), guaranteed("b", 1000))
        await install(site)
        assert [site.cpus(pod.container_id(name)) for name in "ab"] == ["5-7", "5-7"]


async def test_an_annotation_with_more_than_the_pod_requests_does_not_count() -> None:
    async with before(Driver()) as site:
        pod = await koordinators(site, "1-7", OWNS)
        await install(site)
        assert len(CpuSet.parse(site.cpus(pod.container_id("c")))) == 2


async def test_of_two_that_collide_the_later_stays_where_it_is_with_the_reason() -> None:
    async with before(Driver(a="2-3", b="3-4")) as site:
        first = await runs(site, "one", cdi=NAME, cpus="2-3")
        second = await runs(site, "two", cdi="dra.k8s.io/cpu=b", cpus="3-4")
        await install(site)
        (left,) = site.node.adoption.left()
        assert (site.cpus(first), site.cpus(second), str(left.cpus)) == ("2-3", "3-4", "3-4")
        assert (left.name, "CPU 3 is owned by one/c" in left.reason) == ("default/two/c", True)
        assert "4" not in site.cpus((await site.run("own", guaranteed("c", 1000))).container_id("c"))


async def test_a_claim_of_reserved_cpus_leaves_it_where_it_is() -> None:
    async with before(Driver(a="0-1")) as site:
        container = await runs(site, "web", cdi=NAME, cpus="0-1")
        await install(site)
        assert (site.cpus(container), site.node.context.ledger.holder(container)) == ("0-1", None)


async def test_what_it_has_that_can_run_anywhere_is_withheld_from_nobody() -> None:
    async with before(Driver(a="0-1")) as site:
        await runs(site, "web", cdi=NAME)
        await install(site)
        assert site.node.adoption.left()[0].cpus is None
        assert not site.node.context.ledger.allocations.withheld


async def test_it_is_adopted_when_other_options_let_it_have_its_cpus() -> None:
    driver = Driver(a="0-1")
    async with before(driver) as site:
        container = await runs(site, "web", cdi=NAME, cpus="0-1")
        await install(site)
        driver.cpus = {"a": "1-2"}
        assert await reconfigure(site.node, site.policy, site.node.coordinator.config) == ""
        await site.node.settle()
        assert site.cpus(container) == "1-2"


async def test_ignored_claims_are_not_looked_for() -> None:
    async with before(Driver(a="3,6"), Config(claims="ignore")) as site:
        container = await runs(site, "web", cdi=NAME, cpus="3,6")
        await install(site)
        assert site.row(container).grant.request.claim is None


async def test_while_its_files_hang_it_is_not_moved() -> None:
    driver = Driver(a="3,6")
    driver.hangs = True
    async with before(driver) as site:
        container = await runs(site, "web", cdi=NAME, cpus="3,6")
        await install(site)
        assert site.cpus(container) == "3,6"
        assert "does not answer" in site.node.adoption.given_up()[0].reason
        driver.hangs = False
        await site.clock.sleep(60)
        await site.node.resync.check_all("slow check")
        await site.node.settle()
        assert str(site.row(container).grant.owned) == "3,6"


async def test_what_was_created_here_without_a_claim_gets_none_later() -> None:
    async with before(Driver(a="3,6")) as site:
        pod = await site.run("web", OWNS)
        (container,) = site.live()
        container.config.CDI_devices.add(name=NAME)
        await install(site)
        assert site.row(pod.container_id("c")).grant.request.claim is None
