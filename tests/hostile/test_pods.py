"""Pods whose author wants to harm others: what a pod says is all that they can choose."""

from collections.abc import Awaitable, Callable

import pytest

from cri_proxy.cri.annotations.resource_managers import RESOURCE_STATUS
from cri_proxy.cri.annotations.rules import DOMAINS
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.node.resource_files.notify import COMMAND_SECONDS
from policies.base import CpuKind
from tests.hostile.bounds import Bounds
from tests.hostile.hostile_runtime import of
from tests.hostile.node import CONFIGURATION, MACHINE, AttackedNode, Place
from tests.hostile.stories import ON_CONTAINERD_TOO
from tests.testbed.wait import until

FLOW_LISTS = "[" + "a, " * 5_000 + "a]"  # of 16 KB, which a pod's annotations may have together
A_FEW_KIND = "{" + ", ".join(f"c{number}: [a, b]" for number in range(60)) + "}"  # and these are read


@ON_CONTAINERD_TOO
@pytest.mark.parametrize("text", [FLOW_LISTS * 16, FLOW_LISTS, A_FEW_KIND], ids=["240 KiB", "16 KiB", "read"])
async def test_a_pod_with_yaml_lists_in_its_annotations(node: AttackedNode, text: str) -> None:
    """A pod brings YAML flow lists in an annotation and ten containers that read it: others' calls do not wait."""
    containers = tuple(ContainerSpec(f"c{number}") for number in range(10))
    pod = PodSpec("long-winded", containers, annotations=((f"{DOMAINS[0]}/affinity", text),))
    async with node.under_attack(Bounds(turn_references=0.6)):  # ten times what reading the worst of them takes
        await node.kubelet.run_pod(pod)


def globs_for_joint_keys(count: int) -> str:
    """Affinities that compare several values of every container of the node with a glob of their own."""
    keys = "pod/name,pod/uid,id" if count < 3 else "pod/name,pod/uid,id,name,namespace,qosclass,pod/id,pod/namespace"
    matches = (f'{{key: ":,-{keys}", operator: MatchesNone, values: ["*{n}?*[!x]?*"]}}' for n in range(count))
    scope = f'{{key: ":,_{keys}", operator: NotIn, values: [x]}}'
    return "{c: [" + ", ".join(f"{{scope: {scope}, match: {match}}}" for match in matches) + "]}"


@pytest.mark.parametrize("count", [2, 25], ids=["read", "refused"])
async def test_a_pod_with_affinities_of_globs_and_joint_keys(node: AttackedNode, count: int) -> None:
    """A pod has as costly affinities as may be, beside a hundred containers: others' calls do not wait for it."""
    wish = ((f"{DOMAINS[0]}/affinity", globs_for_joint_keys(count)),)
    neighbours = tuple(ContainerSpec(f"neighbour-{number}") for number in range(10))
    async with node.under_attack():
        for number in range(10):
            await node.kubelet.run_pod(PodSpec(f"neighbours-{number}-of-many", neighbours))
        for number in range(5):
            await node.kubelet.run_pod(PodSpec(f"picky-{number}", (ContainerSpec("c"),), annotations=wish))
    said = "25 patterns in one list of affinities; the bound is 8" in node.daemon.log.read_text()
    assert said is (count > 2)


async def test_commands_of_one_namespace_that_hang(node: AttackedNode) -> None:
    """Ten commands of a namespace hang, and one of another says 8 MB: those of a third namespace run at once."""

    def pod(name: str, namespace: str, command: str) -> PodSpec:
        asks = ((f"{DOMAINS[0]}/notify-exec", command),)
        return PodSpec(name, (guaranteed("c", 100),), namespace, annotations=asks)

    async with node.under_attack():
        node.runtime.never_answer("ExecSync", of("sleep"))
        node.runtime.answer("ExecSync", of("yes"), pb.ExecSyncResponse(stdout=b"y\n" * (4 << 20)).SerializeToString())
        for number in range(10):
            await node.kubelet.run_pod(pod(f"loud-{number}", "loud", "sleep 60"))
        for other in (pod("chatty", "chatty", "yes y"), pod("quiet", "quiet", "reload")):
            await node.kubelet.run_pod(other)
        for number in range(2):  # who shares on either socket has less now
            await node.kubelet.run_pod(PodSpec(f"taker-{number}", (guaranteed("c", 2000),)))
        await until(
            "the others' commands have run", said(node, "quiet", "reload: not found"), seconds=COMMAND_SECONDS / 2
        )
        await until("one was cut", said(node, "chatty", "more than 65536"), seconds=COMMAND_SECONDS / 2)


def said(node: AttackedNode, *words: str) -> Callable[[], Awaitable[bool]]:
    """Whether these words stand in one line of the daemon's log."""

    async def look() -> bool:
        return any(all(word in line for word in words) for line in node.daemon.log.read_text().splitlines())

    return look


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("", "it counts in kube-system and where restrictedAnnotations names it, not in default"),
        (
            "restrictedAnnotations: [{keys: [cpu.preserve], namespaces: [kube-system]}]\n",
            "restrictedAnnotations lets it count in kube-system only, not in default",
        ),
    ],
    ids=["by default", "restricted"],
)
@ON_CONTAINERD_TOO
async def test_a_pod_that_wants_every_cpu(place: Place, option: str, why: str) -> None:
    """A pod asks to be left unpinned: it is kept off CPUs that others own, and told why."""
    wish = ((f"cpu.preserve.{DOMAINS[2]}/container.c", "true"),)
    async with place.node(configuration=CONFIGURATION + option) as node:
        async with node.under_attack():
            pod = await node.kubelet.run_pod(PodSpec("greedy", (ContainerSpec("c"),), annotations=wish))
            views = (await node.daemon.admin.status()).containers
            kinds = [view.kind for view in views if view.container_id == pod.container_id("c")]
            assert kinds == [CpuKind.SHARED]
        assert why in node.daemon.log.read_text()


async def test_pods_that_claim_cpus_which_they_do_not_pay_for(node: AttackedNode) -> None:
    """Pods of 10m name a CPU each in Koordinator's annotation: they share like others, and who pays gets CPUs."""
    async with node.under_attack():
        for cpu in MACHINE.online:
            wish = ((RESOURCE_STATUS, f'{{"cpuset": "{cpu}"}}'),)
            await node.kubelet.run_pod(PodSpec(f"thief-{cpu}", (ContainerSpec("c", 10),), annotations=wish))
        await node.kubelet.run_pod(PodSpec("payer", (guaranteed("c", 4000),)))
        kinds = {view.pod: view.kind for view in (await node.daemon.admin.status()).containers}
        assert {kind for pod, kind in kinds.items() if pod.startswith("thief")} == {CpuKind.SHARED}
        assert kinds["payer"] == CpuKind.EXCLUSIVE
