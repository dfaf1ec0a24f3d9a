"""The program that is named for a rewritten cpuset, by the evidence."""

from cri_proxy.node.drift.cgroups import Enforced
from cri_proxy.node.drift.drift import likely_writer
from cri_proxy.node.drift.kubelet_managers import KubeletManagers
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.descriptions.machine import describe

MACHINE = describe({"packages": 2, "cores": 4})
STATIC = KubeletManagers("static", sets=(CpuSet.parse("0,4-7"),))
SCOPE = "/kubepods.slice/cri-containerd-1.scope"


def named(
    cpus: str, *, path: str = "/kubepods/pod-1/1", managers: KubeletManagers = STATIC, record: bool = False
) -> str:
    enforced = Enforced(path, CpuSet.parse(cpus), NodeSet.parse("0"))
    return likely_writer(enforced, MACHINE, managers, runtime_differs=record)


def test_what_the_runtime_itself_has_on_record_came_through_it() -> None:
    assert "NRI plugin" in named("0,4-7", record=True)


def test_a_set_of_the_kubelets_state_file_is_the_kubelets() -> None:
    assert "the kubelet's CPU manager (policy static)" in named("0,4-7")
    assert "kubelet's CPU manager" not in named("0,4-7", managers=KubeletManagers("none", sets=STATIC.sets))


def test_a_scope_that_was_set_free_was_reloaded_by_systemd() -> None:
    assert "daemon-reload" in named("0-7", path=SCOPE)
    assert "daemon-reload" not in named("0-7")
    assert "daemon-reload" not in named("2-3", path=SCOPE)


def test_without_evidence_nobody_is_named() -> None:
    assert named("2-3").startswith("the cgroup's files")
