import asyncio
from dataclasses import replace

from cri_proxy.cri.device_names.names import MAX_NAMES, NOTHING_TOLD, DeviceName
from cri_proxy.file_workers import FilesFailed
from cri_proxy.kubelet.pod_resources import KEPT_PODS, SILENCE_SECONDS, PodResources, told_devices
from cri_proxy.kubelet.proto import podresources_v1_pb2 as pb
from cri_proxy.node.decision_log.journal import Journal
from policies.base import Pod, QosClass
from sysfs.cpuset import NodeSet
from tests.fakes.clock import ManualClock
from tests.fakes.site import Silent
from tests.unit.cri_proxy.kubelet.service import KubeletService, devices, pod

WEB = pod("web", {"c0": [devices("example.com/nic", "eth1", nodes=(1,))]})
OTHER = Pod("uid-2", "other", "default", QosClass.GUARANTEED)
POD = Pod("uid-1", "web", "default", QosClass.GUARANTEED)


class Asking:
    def __init__(self, kubelet: KubeletService, *, budget_seconds: float = 20) -> None:
        self.kubelet = kubelet
        self.clock = ManualClock()
        self.log = Silent()
        journal = Journal(self.log, self.clock)
        known = NodeSet.parse("0-1")
        self.resources = PodResources(kubelet, self.clock, journal, known=lambda: known, budget_seconds=budget_seconds)

    async def nodes(self, asked: Pod = POD) -> str:
        """The node of c0's device, '' when nothing is told."""
        told = await self.resources.told(asked, "c0")
        return ",".join(str(group.place.nodes) for group in told.places)


async def test_the_kubelet_is_asked_once_per_pod_while_the_sandbox_is_made() -> None:
    node = Asking(KubeletService(WEB))
    node.resources.expect(POD)
    assert [await node.nodes(), await node.nodes()] == ["1", "1"]
    assert node.kubelet.calls == ["Get"]


async def test_a_pod_that_was_not_announced_is_asked_for_when_it_is_needed() -> None:
    assert await Asking(KubeletService(WEB)).nodes() == "1"


async def test_where_get_is_disabled_the_list_answers_and_get_is_not_tried_again() -> None:
    node = Asking(KubeletService(WEB, get="disabled"))
    assert [await node.nodes(), await node.nodes(OTHER)] == ["1", ""]
    assert node.kubelet.calls == ["Get", "List", "List"]


async def test_a_kubelet_that_does_not_answer_is_told_once_and_left_alone_for_a_while() -> None:
    for how in ("absent", "silent", "garbage"):
        node = Asking(KubeletService(WEB, get=how), budget_seconds=0.3 if how == "silent" else 20)
        assert [await node.nodes(), await node.nodes(OTHER)] == ["", ""]
        assert node.kubelet.calls == ["Get"]
        await node.clock.advance(SILENCE_SECONDS + 1)
        node.kubelet.get = "offered"
        assert await node.nodes() == "1"
        assert node.log.errors == []


class Heard(Silent):
    def info(self, event: str, **fields: object) -> None:
        self.warnings.append(str(fields["reason"]))

    warning = info


async def test_who_does_not_answer_is_called_the_kubelet_and_not_the_runtime() -> None:
    log, clock = Heard(), ManualClock()
    kubelet = KubeletService(WEB, get="absent")
    resources = PodResources(kubelet, clock, Journal(log, clock), known=lambda: NodeSet(1), budget_seconds=20)
    assert await resources.told(POD, "c0") == NOTHING_TOLD
    assert [reason.partition(":")[0] for reason in log.warnings] == ["the kubelet does not answer"]


async def test_only_the_newest_pods_are_remembered() -> None:
    node = Asking(KubeletService(WEB))
    await node.nodes()
    others = [replace(OTHER, uid=f"other-{n}") for n in range(KEPT_PODS)]
    for other in others:
        node.resources.expect(other)
    for other in others:
        await node.nodes(other)
    node.kubelet.pods = ()
    assert await node.nodes() == ""


async def test_of_a_pod_the_answer_is_kept_and_nothing_of_the_question() -> None:
    """A daemon of 500 containers has 500 of them: a task and messages would be kilobytes each."""
    node = Asking(KubeletService(WEB))
    assert await node.nodes() == "1"
    assert (node.resources._asking, set(map(type, node.resources._answers.values()))) == ({}, {bytes})


class Looks:
    """The look at the socket's directory, which lasts until ``end`` is set."""

    def __init__(self, problem: str = "") -> None:
        self.end = asyncio.Event()
        self.count, self.problem = 0, problem
        kubelet, clock, self.log = KubeletService(WEB), ManualClock(), Silent()
        self.resources = PodResources(
            kubelet,
            clock,
            Journal(self.log, clock),
            known=lambda: NodeSet.parse("0-1"),
            look=self.look,
            budget_seconds=20,
        )

    async def look(self) -> None:
        self.count += 1
        await self.end.wait()
        if self.problem:
            raise FilesFailed("/var/lib/kubelet", self.problem)


async def places(looks: Looks, *asked: Pod) -> list[int]:
    """How many places each of these pods is told, who all ask before the look ends."""
    told = asyncio.gather(*(looks.resources.told(each, "c0") for each in asked))
    await asyncio.sleep(0)
    looks.end.set()
    return [len(each.places) for each in await told]


async def test_of_pods_that_come_at_once_one_looks_at_the_socket_for_all() -> None:
    looks = Looks()
    assert await places(looks, *(replace(POD, uid=f"uid-{n}") for n in range(20))) == [1] * 20
    assert looks.count == 1
    # What was seen then says nothing of a later question.
    assert await places(looks, replace(POD, uid="uid-21")) == [1]
    assert looks.count == 2


async def test_a_look_that_fails_fails_for_all_who_waited_for_it() -> None:
    looks = Looks("no answer")
    assert await places(looks, *(replace(POD, uid=f"uid-{n}") for n in range(3))) == [0] * 3
    assert (looks.count, looks.resources.has_missed) == (1, True)


async def test_a_fault_of_the_look_is_reported_and_no_caller_taken_for_cancelled() -> None:
    looks = Looks()

    async def fails() -> None:
        raise KeyError("a bug")

    looks.resources._look = fails
    assert len(await looks.resources.of_all()) == 1
    assert len(looks.log.errors) == 1


async def test_it_can_be_closed_while_it_looks() -> None:
    looks = Looks()
    looks.resources.expect(POD)
    for _ in range(3):  # its task, the one that looks, and the look
        await asyncio.sleep(0)
    await looks.resources.close()
    assert (looks.count, len(looks.resources._tasks)) == (1, 0)


NODES = NodeSet.parse("0-3")


def hints_for(*given: pb.ContainerDevices, container: str = "c0") -> list[tuple[str, str]]:
    told = told_devices(pod("web", {container: given}), "c0", NODES)
    return [(group.place.source, str(group.place.nodes)) for group in told.places]


def test_each_group_of_devices_gives_its_nodes() -> None:
    nic, gpu = devices("example.com/nic", "eth1", nodes=(1,)), devices("example.com/gpu", "b", "a", nodes=(2, 3))
    assert hints_for(nic, gpu) == [("podresapi:example.com/gpu/a,b", "2-3"), ("podresapi:example.com/nic/eth1", "1")]


def test_a_device_without_nodes_or_on_all_nodes_gives_no_hint() -> None:
    assert hints_for(devices("example.com/nic", "eth1"), devices("example.com/fuse", "0", nodes=(0, 1, 2, 3))) == []


def test_nodes_that_the_machine_lacks_do_not_count_however_large() -> None:
    assert hints_for(devices("example.com/nic", "eth1", nodes=(-1, 1, 9, 1 << 62))) == [
        ("podresapi:example.com/nic/eth1", "1")
    ]


def test_devices_of_other_containers_do_not_count() -> None:
    assert hints_for(devices("example.com/nic", "eth1", nodes=(1,)), container="c1") == []


def claimed(*given: pb.ClaimResource) -> pb.PodResources:
    claim = pb.DynamicResource(claim_name="gpus", claim_namespace="default", claim_resources=given)
    return pb.PodResources(containers=[pb.ContainerResources(name="c0", dynamic_resources=[claim])])


def a_device(name: str, *cdi: str) -> pb.ClaimResource:
    names = [pb.CDIDevice(name=each) for each in cdi]
    return pb.ClaimResource(cdi_devices=names, driver_name="gpu.example.com", pool_name="node", device_name=name)


def test_a_claim_names_its_cdi_devices() -> None:
    told = told_devices(claimed(a_device("gpu-0", "example.com/gpu=0", "example.com/gpu=ctl")), "c0", NODES)
    assert [name for name, _ in told.cdi] == ["example.com/gpu=0", "example.com/gpu=ctl"]
    assert {via for _, via in told.cdi} == {"podresapi:gpu.example.com/node/gpu-0"}


def test_a_device_of_a_claim_that_is_called_by_its_pci_address_needs_no_cdi_device() -> None:
    told = told_devices(claimed(a_device("nic-0000-3b-02-1")), "c0", NODES)
    via = "podresapi:gpu.example.com/node/nic-0000-3b-02-1"
    assert told.names == (DeviceName("pci", "0000:3b:02.1", via),)


def test_older_kubelets_tell_of_a_claim_alone() -> None:
    device = pb.ClaimResource(cdi_devices=[pb.CDIDevice(name="example.com/gpu=0")])
    assert told_devices(claimed(device), "c0", NODES).cdi == (("example.com/gpu=0", "podresapi:default/gpus"),)


def test_claims_of_other_containers_do_not_count() -> None:
    assert told_devices(claimed(a_device("gpu-0", "example.com/gpu=0")), "c1", NODES) == NOTHING_TOLD


def test_no_more_devices_of_claims_count_than_of_variables() -> None:
    many = [a_device(f"gpu-{number}", f"example.com/gpu={number}") for number in range(MAX_NAMES + 9)]
    assert len(told_devices(claimed(*many), "c0", NODES).cdi) == MAX_NAMES


async def test_it_is_asked_about_all_containers_at_once_and_what_was_missed_is_known() -> None:
    node = Asking(KubeletService(WEB, get="absent"))
    assert await node.nodes() == "" and node.resources.has_missed
    assert await node.resources.of_all() == {} and node.resources.has_missed
    node.kubelet.get = "offered"
    told = await node.resources.of_all()
    assert {str(name): each.allocated for name, each in told.items()} == {"default/web/c0": ("example.com/nic/eth1",)}
    assert not node.resources.has_missed
    assert await node.nodes() == "1" and not node.resources.has_missed  # it is not left alone any more
