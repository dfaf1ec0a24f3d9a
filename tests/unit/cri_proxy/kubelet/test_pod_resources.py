from dataclasses import replace

from cri_proxy.kubelet.pod_resources import KEPT_PODS, SILENCE_SECONDS, PodResources, hints_of_container
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
        hints = await self.resources.hints(asked, "c0")
        return ",".join(str(hint.nodes) for hint in hints)


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
    assert await resources.hints(POD, "c0") == ()
    assert [reason.partition(":")[0] for reason in log.warnings] == ["the kubelet does not answer"]


async def test_only_the_newest_pods_are_remembered() -> None:
    node = Asking(KubeletService(WEB))
    await node.nodes()
    for n in range(KEPT_PODS):
        node.resources.expect(replace(OTHER, uid=f"other-{n}"))
    node.kubelet.pods = ()
    assert await node.nodes() == ""


NODES = NodeSet.parse("0-3")


def hints_for(*given: pb.ContainerDevices, container: str = "c0") -> list[tuple[str, str]]:
    return [(h.source, str(h.nodes)) for h in hints_of_container(pod("web", {container: given}), "c0", NODES)]


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
