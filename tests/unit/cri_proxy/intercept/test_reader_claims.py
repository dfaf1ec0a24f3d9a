"""A node where a CPU DRA driver writes CDI files and Koordinator annotates pods: who gets which CPUs, for how long."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cri_proxy.config.model import Config
from cri_proxy.cri.annotations.resource_managers import RESOURCE_STATUS
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, create_request, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.file_workers import PLAIN_THREADS
from cri_proxy.intercept.cdi_devices import CDI_FILES, CdiDevices
from cri_proxy.node.reconfigure import reconfigure
from cri_proxy.state.memory_store import MemoryStore
from policies.builder import build_policy
from policies.policy import Policy
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from tests.fakes.silent_files import SilentFiles
from tests.fakes.site import Site, opened
from tests.unit.cri_proxy.node.stage import owned

OWNS, SHARES = guaranteed("c", 2000), ContainerSpec("c", 500)
KIND = "dra.k8s.io/cpu"


class DriverSite(Site):
    """A site below whose root a driver prepares claims; 2 packages of 4 CPUs, CPU 0 reserved."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.cdi = root / "var/run/cdi"
        self.cdi.mkdir(parents=True)
        self.devices = CdiDevices(root, PLAIN_THREADS)

    def use(self, *, honours: bool = True) -> None:
        config = Config(claims="honour" if honours else "ignore")
        reader = replace(self.interceptor._reader, cdi=self.devices, config=config)
        self.interceptor.use_reader(reader)

    def prepare(self, claim: str, cpus: str) -> None:
        """Write what NodePrepareResources leaves for the runtime."""
        device = {"name": claim, "containerEdits": {"env": [f"DRA_CPUSET_{claim}={cpus}"]}}
        spec = {"cdiVersion": "0.8.0", "kind": KIND, "devices": [device]}
        (self.cdi / f"cpu-{claim}.json").write_text(json.dumps(spec))

    async def claim(self, pod: str, *claims: str, container: ContainerSpec = OWNS) -> RunningPod:
        """Run a pod whose container has these claims, as the kubelet does."""
        spec = PodSpec(pod, (container,))
        sandbox_id = await self.kubelet.run_sandbox(spec)
        request = create_request(spec, container, sandbox_id, node=self.kubelet.node)
        for name in claims:
            request.config.CDI_devices.add(name=f"{KIND}={name}")
        container_id = await self.kubelet.create_as(request)
        await self.kubelet.start(container_id)
        await self.node.settle()
        return RunningPod(spec, sandbox_id, ((container.name, container_id),))


def on(site: Site, pod: RunningPod, name: str = "c") -> str:
    return site.cpus(pod.container_id(name))


def policy_without(cpus: str) -> Policy:
    machine = describe({"packages": 2, "cores": 4, "offline": cpus})
    return build_policy("topology-aware", machine, TopologyAwareOptions(machine.online, CpuSet.parse("0")))


async def test_while_its_claim_cannot_be_read_a_container_is_refused_and_others_start(tmp_path: Path) -> None:
    async with opened(DriverSite(tmp_path)) as site:
        site.prepare("a", "2-3")
        site.devices = CdiDevices(tmp_path, SilentFiles(CDI_FILES))
        site.use()
        with pytest.raises(CallFailed, match=r"CPUs were chosen for it by dra.k8s.io/cpu=a, and it is not known which"):
            await site.claim("late", "a")
        assert len(owned(site, (await site.run("other", OWNS)).container_id("c"))) == 2
        site.devices = CdiDevices(tmp_path, PLAIN_THREADS)
        site.use()
        assert on(site, await site.claim("again", "a")) == "2-3"


async def test_a_container_runs_on_what_its_driver_chose_and_others_leave_it(tmp_path: Path) -> None:
    async with opened(DriverSite(tmp_path)) as site:
        site.use()
        sharer = await site.run("s", SHARES)
        site.prepare("a", on(site, sharer).partition(",")[0][:1])
        site.prepare("b", "2-3")
        pod = await site.claim("web", "a", "b")
        assert on(site, pod) == "2-4"
        assert CpuSet.parse(on(site, sharer)).isdisjoint(CpuSet.parse("2-4"))
        await site.kubelet.remove_pod(pod.sandbox_id)
        await site.node.settle()
        assert "4" in on(site, sharer)


async def test_a_variable_in_the_pods_own_environment_says_nothing(tmp_path: Path) -> None:
    async with opened(DriverSite(tmp_path)) as site:
        site.use()
        spec = PodSpec("web", (OWNS,))
        request = create_request(spec, OWNS, await site.kubelet.run_sandbox(spec), node=site.kubelet.node)
        request.config.envs.add(key="DRA_CPUSET_a", value=b"1-7")
        container_id = await site.kubelet.create_as(request)
        assert site.row(container_id).grant.request.claim is None
        assert len(CpuSet.parse(site.cpus(container_id))) == 2


async def test_what_collides_is_refused_with_both_sides(tmp_path: Path) -> None:
    async with opened(DriverSite(tmp_path)) as site:
        site.use()
        site.prepare("a", "2-3")
        site.prepare("b", "3-4")
        await site.claim("web", "a")
        with pytest.raises(CallFailed, match="DRA_CPUSET_b claims CPUs 3-4, of which CPU 3 is owned by web/c"):
            await site.claim("late", "b")


async def test_ignored_claims_change_nothing(tmp_path: Path) -> None:
    async with opened(DriverSite(tmp_path)) as site:
        site.use(honours=False)
        site.prepare("a", "3,7")
        plain = await site.run("plain", OWNS)
        before = on(site, plain)
        await site.kubelet.remove_pod(plain.sandbox_id)
        await site.node.settle()
        assert on(site, await site.claim("web", "a")) == before != "3,7"


async def test_containers_of_koordinators_pod_own_its_cpus_together(tmp_path: Path) -> None:
    async with opened(DriverSite(tmp_path)) as site:
        status = json.dumps({"cpuset": "5-7", "numaNodeResources": [{"node": 1}]})
        pod = await site.run("lsr", guaranteed("a", 2000), guaranteed("b", 1000), **{RESOURCE_STATUS: status})
        assert (on(site, pod, "a"), on(site, pod, "b")) == ("5-7", "5-7")
        greedy = await site.run("all", guaranteed("a", 1000), **{RESOURCE_STATUS: json.dumps({"cpuset": "1-4"})})
        assert (
            len(CpuSet.parse(on(site, greedy, "a"))) == 1
        )  # more than it requests: the pod's author may have written it


async def test_claimed_cpus_survive_a_restart_and_a_lost_store(tmp_path: Path) -> None:
    async with opened(DriverSite(tmp_path)) as site:
        site.use()
        site.prepare("a", "3,6")
        pod = await site.claim("web", "a")
        claim = site.row(pod.container_id("c")).grant.request.claim
        for store in (site.store, MemoryStore()):
            site.store = store
            await site.open()
            grant = site.row(pod.container_id("c")).grant
            assert (str(grant.exclusive), grant.request.claim) == ("3,6", claim)


async def test_a_resize_keeps_the_claimed_cpus(tmp_path: Path) -> None:
    async with opened(DriverSite(tmp_path)) as site:
        site.use()
        site.prepare("a", "3,6")
        pod = await site.claim("web", "a")
        for mcpu in (4000, 1000):
            await site.kubelet.resize(pod, PodSpec("web", (guaranteed("c", mcpu),)))
            assert on(site, pod) == "3,6"


async def test_a_claimed_cpu_that_goes_offline_comes_back(tmp_path: Path) -> None:
    async with opened(DriverSite(tmp_path)) as site:
        site.use()
        site.prepare("a", "3,6")
        pod, rules = await site.claim("web", "a"), site.node.coordinator.config
        seen = []
        for gone in ("6", "3,6", ""):
            await reconfigure(site.node, policy_without(gone), rules, must_fit=False)
            await site.node.settle()
            seen.append(str(site.row(pod.container_id("c")).grant.exclusive))
        assert seen == ["3", "", "3,6"]


async def test_reserving_claimed_cpus_is_refused(tmp_path: Path) -> None:
    async with opened(DriverSite(tmp_path)) as site:
        site.use()
        site.prepare("a", "3,6")
        await site.claim("web", "a")
        machine = site.policy.machine
        options = TopologyAwareOptions(machine.online, CpuSet.parse("0,3"))
        problem = await reconfigure(
            site.node, build_policy("topology-aware", machine, options), site.node.coordinator.config
        )
        assert "leaves no room for web/c (DRA_CPUSET_a claims CPUs 3,6" in problem
