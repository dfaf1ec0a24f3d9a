"""Calls of the pod resources API: what the kubelet answers, closes, refuses, or does not answer any more."""

import pytest

from cri_proxy.errors import CallFailed
from cri_proxy.kubelet.lister.answers import NodeGrants
from cri_proxy.kubelet.lister.lister import ANSWER_SECONDS, GET, KEPT_SECONDS, LIST, MACHINE, SERVICE, Lister
from cri_proxy.kubelet.proto import podresources_v1_pb2 as pb
from cri_proxy.node.decision_log.journal import Journal
from policies.base import Grant
from tests.fakes.clock import ManualClock
from tests.fakes.grants import row, small_policy
from tests.fakes.site import Silent
from tests.unit.cri_proxy.kubelet.service import KubeletService, pod

WEB = pod("web", {"c": []})


def owner() -> Grant:
    return row("c", owned="2-3").grant


class Heard(Silent):
    def info(self, event: str, **fields: object) -> None:
        self.warnings.append(f"{event}: {fields['reason']}")


class Node:
    def __init__(self, kubelet: KubeletService) -> None:
        self.kubelet, self.clock, self.log = kubelet, ManualClock(), Heard()
        grants = NodeGrants(small_policy(), {("default", "web", "c"): owner()})
        self.lister = Lister(kubelet, lambda: grants, self.clock, Journal(self.log, self.clock))

    async def listed(self) -> dict[str, list[int]]:
        answer = pb.ListPodResourcesResponse.FromString(await self.lister.call(LIST, b""))
        return {each.name: list(each.containers[0].cpu_ids) for each in answer.pod_resources}

    async def got(self, name: str) -> list[int]:
        asked = pb.GetPodResourcesRequest(pod_name=name, pod_namespace="default").SerializeToString()
        answer = pb.GetPodResourcesResponse.FromString(await self.lister.call(GET, asked))
        return list(answer.pod_resources.containers[0].cpu_ids)


async def test_each_call_is_the_kubelets_with_the_grants_of_the_moment() -> None:
    node = Node(KubeletService(WEB, pod("log", {"c": []})))
    assert await node.listed() == {"web": [2, 3], "log": []}
    assert await node.got("web") == [2, 3]
    machine = pb.AllocatableResourcesResponse.FromString(await node.lister.call(MACHINE, b""))
    assert list(machine.cpu_ids) == [1, 2, 3, 4, 5, 6, 7]
    assert node.kubelet.calls == ["List", "Get", "GetAllocatableResources"]


async def test_a_method_of_a_later_kubelet_passes() -> None:
    assert await Node(KubeletService()).lister.call(SERVICE + "Future", b"\x08\x01") == b"\x08\x01"


async def test_where_the_kubelets_gate_for_get_is_closed_its_list_answers() -> None:
    node = Node(KubeletService(WEB, get="disabled"))
    assert await node.got("web") == [2, 3]
    with pytest.raises(CallFailed, match="the kubelet lists no pod default/other") as caught:
        await node.got("other")
    assert caught.value.code == 5


async def test_a_refusal_of_the_kubelet_is_its_own() -> None:
    with pytest.raises(CallFailed, match="pod other not found") as caught:
        await Node(KubeletService(WEB)).got("other")
    assert caught.value.code == 5


@pytest.mark.parametrize("how", ["absent", "silent"])
async def test_while_the_kubelet_is_away_its_last_answer_counts_for_a_while(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cri_proxy.kubelet.lister.lister.ANSWER_SECONDS", 0.05 if how == "silent" else ANSWER_SECONDS)
    node = Node(KubeletService(WEB))
    await node.listed()
    node.kubelet.get = how
    assert await node.listed() == {"web": [2, 3]}
    assert await node.got("web") == [2, 3]
    (told,) = node.log.warnings  # once
    assert told.startswith("pod_resources_away: the kubelet does not answer: ")
    with pytest.raises(CallFailed, match="the kubelet does not answer") as caught:
        await node.lister.call(MACHINE, b"")
    assert caught.value.code == 14
    await node.clock.advance(KEPT_SECONDS + 1)
    with pytest.raises(CallFailed, match="its last answer is 301 s old"):
        await node.listed()
    node.kubelet.get = "offered"
    assert await node.listed() == {"web": [2, 3]}


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_kubelet_that_is_away_is_waited_for_once(is_known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cri_proxy.kubelet.lister.lister.ANSWER_SECONDS", 0.05)
    node = Node(KubeletService(WEB))
    if is_known:
        await node.listed()
    node.kubelet.get, node.kubelet.calls = "silent", []
    if is_known:
        assert await node.got("web") == [2, 3]
    else:
        with pytest.raises(CallFailed, match=r"cri-proxy: the kubelet does not answer: no answer in time$"):
            await node.got("web")
    assert node.kubelet.calls == ["Get"]


async def test_garbage_is_a_clear_error() -> None:
    with pytest.raises(CallFailed, match="the kubelet's answer cannot be read") as caught:
        await Node(KubeletService(WEB, get="garbage")).got("web")
    assert caught.value.code == 13


@pytest.mark.parametrize("how", ["offered", "disabled", "absent"])
async def test_a_request_that_cannot_be_read_is_the_clients_fault(how: str) -> None:
    node = Node(KubeletService(WEB))
    await node.listed()
    node.kubelet.get = how
    with pytest.raises(CallFailed, match="cri-proxy: the request cannot be read: ") as caught:
        await node.lister.call(GET, b"\xff\xff\xff")
    assert (caught.value.code, node.kubelet.calls) == (3, ["List"])
