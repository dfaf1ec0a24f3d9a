"""Devices that the kubelet gave to running containers, and of which nothing was known when these were created."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from cri_proxy.config.model import Config
from cri_proxy.cri.devices.names import Proofs
from cri_proxy.cri_client import pods
from cri_proxy.cri_client.pods import PodSpec, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.kubelet.late_devices import LateDevices
from cri_proxy.kubelet.pod_resources import PodResources
from cri_proxy.kubelet.proto import podresources_v1_pb2 as pb
from cri_proxy.node.reconfigure import use_devices
from cri_proxy.tasks import Tasks
from policies.devices import EMPTY_INVENTORY, proved
from sysfs.cpuset import NodeSet
from tests.fakes.device_policy import two_pairs
from tests.fakes.site import opened
from tests.fakes.waiting import holds
from tests.testbed.pod_kubelet import PodKubelet
from tests.unit.cri_proxy.intercept.inventory_site import ASKS, OWNS, InventorySite, held
from tests.unit.cri_proxy.kubelet.service import KubeletService, devices
from tests.unit.cri_proxy.kubelet.service import pod as told_pod
from tests.unit.cri_proxy.node.stage import background, entered, owned

BOTH = {"cri-proxy.io/device-resources": "nvidia.com/gpu=2"}
GIVEN = told_pod("a", {"c": [devices("nvidia.com/gpu", "GPU-0")]})


class LateSite(InventorySite):
    """A site with a kubelet that tells of these pods; ``service.get`` is how."""

    def __init__(self, *pods: pb.PodResources, rules: Config | None = None) -> None:
        super().__init__(rules)
        self.service = KubeletService(*pods)
        self.proofs: Proofs = {}

    async def open_late(self, *, is_asked: bool = True) -> LateDevices:
        """Let containers ask this kubelet, and return what asks it later."""
        known = NodeSet.parse("0-1")
        kubelet = PodResources(self.service, self.clock, self.journal, known=lambda: known, budget_seconds=0.01)
        self.interceptor.use_reader(replace(self.interceptor._reader, pod_resources=kubelet))
        return LateDevices(self.node, lambda: kubelet if is_asked else None, self._proofs_of)

    async def _proofs_of(self, names: Sequence[str]) -> Proofs:
        return {name: self.proofs[name] for name in names if name in self.proofs}


async def test_a_device_is_held_once_a_silent_kubelet_answers() -> None:
    async with opened(LateSite(GIVEN, told_pod("b", {}))) as site:
        late = await site.open_late()
        site.service.get = "absent"
        pod = await site.run("a", OWNS)
        assert held(site, pod.container_id("c")) == []
        await late.look()
        assert held(site, pod.container_id("c")) == []
        site.service.get = "offered"
        await late.look()
        assert held(site, pod.container_id("c")) == ["gpu 0"]
        with pytest.raises(CallFailed, match=r"1 can be given \(gpu 0: in use\); held: gpu 0 by default/a/c"):
            await site.run("b", OWNS, **BOTH)
        await site.node.settle()
        await site.open()  # a new process has it from the store
        assert held(site, pod.container_id("c")) == ["gpu 0"]


async def test_a_device_that_becomes_known_during_a_resize_is_held_after_its_roll_back() -> None:
    async with opened(LateSite(GIVEN)) as site:
        late = await site.open_late()
        site.service.get = "absent"
        pod = await site.run("a", OWNS)
        site.service.get = "offered"
        linux = pods.resources(pod.spec, guaranteed("c", 2000), site.kubelet.node)
        gate = site.runtime.faults.block("UpdateContainerResources")
        site.runtime.faults.fail_next("UpdateContainerResources", 2, "no", after=True)
        growing = background(site.kubelet.update(pod.container_id("c"), linux))
        await entered(gate)
        await late.look()
        assert len(owned(site, pod.container_id("c"))) == 2
        gate.release()
        with pytest.raises(CallFailed):
            await growing
        assert (held(site, pod.container_id("c")), len(owned(site, pod.container_id("c")))) == (["gpu 0"], 1)
        await site.node.settle()
        await site.open()
        assert held(site, pod.container_id("c")) == ["gpu 0"]


async def test_the_next_attempt_has_what_the_last_one_had_where_the_kubelet_is_silent() -> None:
    async with opened(LateSite(GIVEN)) as site:
        await site.open_late()
        pod = await site.run("a", OWNS)
        site.service.get = "absent"
        await site.open_late()  # that remembers no answer
        await site.kubelet.stop(pod.container_id("c"))
        again = await site.kubelet.create(pod.spec, OWNS, pod.sandbox_id, attempt=1)
        await site.kubelet.start(again)
        assert held(site, again) == ["gpu 0"]
        site.service.pods, site.service.get = (told_pod("a", {"c": []}),), "offered"
        await site.open_late()
        await site.kubelet.stop(again)
        assert held(site, await site.kubelet.create(pod.spec, OWNS, pod.sandbox_id, attempt=2)) == []


async def test_a_device_is_held_once_a_source_lists_it() -> None:
    async with opened(LateSite(GIVEN)) as site:
        use_devices(site.node, EMPTY_INVENTORY)
        late = await site.open_late()
        pod = await site.run("a", OWNS)
        await late.look()
        assert held(site, pod.container_id("c")) == []
        use_devices(site.node, two_pairs())
        await late.look()
        assert held(site, pod.container_id("c")) == ["gpu 0"]


async def test_neither_of_two_that_are_left_alone_by_one_name_gets_the_device_of_the_other() -> None:
    async with opened(LateSite(GIVEN, rules=Config(adopt="leave"))) as site:
        past = PodKubelet(site.runtime, site.kubelet.node)
        first = await past.run_pod(PodSpec("a", (OWNS,)))
        await past.run_pod(replace(first.spec, uid="another"))
        await site.open()
        late = await site.open_late()
        await late.look()
        assert site.node.context.ledger.allocations.holdings == ()


async def test_the_device_of_a_container_that_is_left_alone_is_held_too() -> None:
    async with opened(LateSite(GIVEN, told_pod("b", {}), rules=Config(adopt="leave"))) as site:
        spec = PodSpec("a", (OWNS,))
        pod = await PodKubelet(site.runtime, site.kubelet.node).run_pod(spec)  # past the proxy
        await site.open()
        late = await site.open_late()
        await late.look()
        await late.look()
        (holding,) = site.node.context.ledger.allocations.holdings
        assert [str(device) for device in holding.devices] == ["gpu 0"]
        with pytest.raises(CallFailed, match=r"held: gpu 0 by default/a/c \(left alone\)"):
            await site.run("b", OWNS, **BOTH)
        await site.kubelet.remove_pod(pod.sandbox_id)
        await site.node.resync.check_all("a test")
        assert site.node.context.ledger.allocations.holdings == ()


@pytest.mark.parametrize(("namespace", "holds"), [("default", ["gpu 1"]), ("kube-system", [])])
async def test_the_device_of_a_claim_is_held_as_its_specification_proves_it(namespace: str, holds: list[str]) -> None:
    name = "k8s.gpu.nvidia.com/claim=a-gpu-1"
    told = told_pod("a", {"c": []})
    told.namespace = namespace
    claim = told.containers[0].dynamic_resources.add()
    claim.claim_resources.add(device_name="gpu-1").cdi_devices.add(name=name)
    async with opened(LateSite(told)) as site:
        site.proofs = {name: (proved(["GPU-1"]),)}
        late = await site.open_late()
        site.service.get = "absent"
        pod = await site.run("a", OWNS, namespace=namespace)
        site.service.get = "offered"
        await late.look()
        assert held(site, pod.container_id("c")) == holds


async def test_a_container_holds_a_device_once_however_it_got_it() -> None:
    """The kubelet tells by other names what it holds already, and there is nothing to change."""
    async with opened(LateSite(told_pod("a", {"c": [devices("nvidia.com/gpu", "GPU-0")]}))) as site:
        late = await site.open_late()
        pod = await site.run("a", OWNS, **ASKS)
        before = site.row(pod.container_id("c"))
        await late.look()
        assert site.row(pod.container_id("c")) is before


async def test_of_two_pods_of_one_name_neither_gets_the_devices_of_the_other() -> None:
    """The kubelet tells no uid: a pod that is made again may be listed while its predecessor ends."""
    async with opened(LateSite(GIVEN)) as site:
        late = await site.open_late()
        site.service.get = "absent"
        first = await site.run("a", OWNS)
        second = await site.run_spec(replace(first.spec, uid="another"))
        site.service.get = "offered"
        await late.look()
        assert [held(site, pod.container_id("c")) for pod in (first, second)] == [[], []]
        await site.kubelet.remove_pod(first.sandbox_id)
        await site.node.settle()
        await late.look()
        assert held(site, second.container_id("c")) == ["gpu 0"]


async def test_an_answer_about_a_pod_that_has_ended_meanwhile_is_not_of_the_next_one_of_its_name() -> None:
    name = "k8s.gpu.nvidia.com/claim=a-gpu-1"
    told = told_pod("a", {"c": []})
    claim = told.containers[0].dynamic_resources.add()
    claim.claim_resources.add(device_name="gpu-1").cdi_devices.add(name=name)

    class MadeAgain(LateSite):
        """The pod is made again while the files behind its claim are read."""

        async def _proofs_of(self, names: Sequence[str]) -> Proofs:
            if self.proofs:
                await self.kubelet.remove_pod(first.sandbox_id)
                await self.run_spec(replace(first.spec, uid="another"))
            return await super()._proofs_of(names)

    async with opened(MadeAgain(told)) as site:
        late = await site.open_late()
        site.service.get = "absent"
        first = await site.run("a", OWNS)
        site.service.get = "offered"
        site.proofs = {name: (proved(["GPU-1"]),)}
        await late.look()
        (row,) = site.node.context.ledger.active()
        assert (row.key.pod_uid, row.grant.devices) == ("another", ())


async def test_of_two_pods_that_the_kubelet_lists_by_one_name_neither_is_told_of() -> None:
    async with opened(LateSite(GIVEN, told_pod("a", {"c": []}))) as site:
        late = await site.open_late()
        site.service.get = "absent"
        pod = await site.run("a", OWNS)
        site.service.get = "offered"
        for listed in (site.service.pods, site.service.pods[::-1]):
            site.service.pods = listed
            await late.look()
            assert held(site, pod.container_id("c")) == []
        site.service.pods = (GIVEN,)
        await late.look()
        assert held(site, pod.container_id("c")) == ["gpu 0"]


async def test_where_the_operator_does_not_want_it_asked_the_kubelet_is_left_alone() -> None:
    async with opened(LateSite(GIVEN)) as site:
        late = await site.open_late(is_asked=False)
        site.service.get = "absent"
        await site.run("a", OWNS)
        site.service.calls.clear()
        await late.look()
        assert site.service.calls == []


class Timed(KubeletService):
    """Keeps when it was asked about all containers; ``steps`` has what happens at a question, by its number."""

    def __init__(self, site: LateSite) -> None:
        super().__init__(GIVEN, get="absent")
        self._site = site
        self.asked_at: list[float] = []
        self.steps: dict[int, Callable[[], object]] = {}

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        if method.endswith("/List"):
            self.asked_at.append(self._site.clock.monotonic_seconds())
            self.steps.get(len(self.asked_at), lambda: None)()
        return await super().unary(method, message, timeout_seconds=timeout_seconds)

    def answer(self) -> None:
        self.get = "offered"

    async def waits(self, late: LateDevices, count: int) -> list[float]:
        """Let it watch until it was asked so often; return the seconds between the questions."""
        tasks = Tasks(lambda error: self._site.log.errors.append(repr(error)))
        tasks.start(late.watch(), name="late devices")
        await holds("it has asked", lambda: len(self.asked_at) >= count)
        await tasks.cancel()
        return [later - before for before, later in pairwise(self.asked_at[:count])]


def other_devices(site: LateSite) -> None:
    use_devices(site.node, EMPTY_INVENTORY)
    use_devices(site.node, two_pairs())


async def test_it_looks_each_minute_and_twice_as_often_at_a_kubelet_that_stays_silent() -> None:
    async with opened(LateSite()) as site:
        site.service = timed = Timed(site)
        timed.steps = {3: timed.answer}
        late = await site.open_late()
        pod = await site.run("a", OWNS)
        assert await timed.waits(late, 5) == [30, 30, 60, 60]
        assert held(site, pod.container_id("c")) == ["gpu 0"]


async def test_it_looks_soon_after_a_container_came_without_an_answer_or_devices_changed() -> None:
    async with opened(LateSite()) as site:
        site.service = timed = Timed(site)
        late = await site.open_late()
        kubelet = late._kubelet()
        timed.steps = {
            1: timed.answer,
            2: lambda: setattr(kubelet, "has_missed", True),
            3: lambda: other_devices(site),
        }
        await site.run("a", OWNS)
        assert await timed.waits(late, 4) == [60, 5, 5]
