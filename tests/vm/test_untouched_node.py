"""The installer's pod by a Node's label: from a node that knows nothing of cri-proxy to a pinned pod, and back."""

import pytest

from sysfs.cpuset import CpuSet
from tests.vm.report import Report

pytestmark = pytest.mark.timeout(1500)
RUNTIME = "--container-runtime-endpoint=unix:///run/containerd/containerd.sock"
PROXY = "--container-runtime-endpoint=unix:///run/cri-proxy/cri-proxy.sock"
ALL, RESERVED = CpuSet.parse("0-3"), CpuSet.parse("0")


def test_before_the_label_the_node_is_as_its_owner_left_it(untouched_node: Report) -> None:
    facts = untouched_node.facts
    assert RUNTIME in facts["untouched: kubelet"]
    assert (facts["untouched: daemon"], facts["untouched: phase"], facts["untouched: ready"]) == ([], "", True)
    assert untouched_node.steps["untouched"]["before/c0"].cpus == ALL


def test_a_node_that_is_not_ready_is_turned_back_by_its_timer(untouched_node: Report) -> None:
    """The pod was killed before."""
    facts = untouched_node.facts
    assert (facts["turned back: phase"], facts["turned back: ready"]) == ("failed", True)
    assert "not done in time" in facts["turned back: by"] and "restart the kubelet" in facts["turned back: by"]
    assert facts["turned back: kubelet"] == facts["untouched: kubelet"]
    assert facts["turned back: daemon"] == []
    before, after = (untouched_node.steps[step]["before/c0"] for step in ("untouched", "turned back"))
    assert (after.pid, after.cpus) == (before.pid, ALL)


def test_no_other_node_follows_until_a_person_has_looked(untouched_node: Report) -> None:
    holder, failure = untouched_node.facts["turned back: failure"]
    assert holder == "vm" and "not done in time" in failure


def test_with_it_the_kubelet_calls_the_daemon_that_the_pod_has_brought(untouched_node: Report) -> None:
    facts = untouched_node.facts
    assert PROXY in facts["installed: kubelet"] and RUNTIME not in facts["installed: kubelet"]
    python, *_ = facts["installed: daemon"]
    assert python.startswith("/opt/cri-proxy/")
    assert (facts["installed: phase"], facts["installed: ready"]) == ("done", True)


def test_a_new_pod_has_a_cpu_of_its_own(untouched_node: Report) -> None:
    """By its cgroup's file, by what the kernel allows its process, and as the daemon has it."""
    seen = untouched_node.steps["installed"]
    pinned = seen["pinned/c0"]
    assert len(pinned.cpus) == 1 and pinned.written == pinned.cpus
    assert pinned.cpus.isdisjoint(RESERVED | seen["before/c0"].cpus)
    assert untouched_node.facts["installed: status"]["pinned"] == [str(pinned.cpus), str(pinned.cpus)]


def test_a_pod_that_ran_before_runs_on_in_a_place_of_its_own(untouched_node: Report) -> None:
    before, after = (untouched_node.steps[step]["before/c0"] for step in ("untouched", "installed"))
    assert before.pid == after.pid
    assert len(after.cpus) == 1 and after.cpus.isdisjoint(RESERVED)


def test_the_turn_is_passed_on_after_each_way(untouched_node: Report) -> None:
    assert [untouched_node.facts[f"{step}: lease"] for step in ("installed", "back")] == [["", ""], ["", ""]]


def test_back_it_is_as_its_owner_left_it(untouched_node: Report) -> None:
    facts = untouched_node.facts
    assert facts["back: changed"] == ["/opt/cri-proxy/installer/lock"]
    assert facts["back: kubelet"] == facts["untouched: kubelet"]
    assert (facts["back: daemon"], facts["back: phase"], facts["back: ready"]) == ([], "", True)


def test_pods_run_on_with_all_cpus(untouched_node: Report) -> None:
    installed, back = untouched_node.steps["installed"], untouched_node.steps["back"]
    assert {name: seen.pid for name, seen in back.items()} == {name: seen.pid for name, seen in installed.items()}
    assert {name: seen.cpus for name, seen in back.items()} == dict.fromkeys(installed, ALL)
