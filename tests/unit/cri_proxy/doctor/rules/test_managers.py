import pytest

from cri_proxy.doctor.rules.managers import (
    damaged_state,
    former_state,
    refused_settings,
    static_managers,
    topology_manager,
)
from cri_proxy.kubelet.distributions import DISTRIBUTIONS
from cri_proxy.node.drift.kubelet_state import KubeletManagers
from tests.fakes.node_facts import CONFIG, WIRED, codes, healthy, kubelet, only, settings

STATIC = KubeletManagers("static", "Static")


def test_a_static_policy_names_its_place_and_the_order_of_steps() -> None:
    found = only(static_managers, healthy(kubelet=kubelet(f'{WIRED}cpuManagerPolicy: static\nreservedSystemCPUs: "0"')))
    assert found.text == f"{CONFIG} sets cpuManagerPolicy: static: the kubelet's CPU manager pins containers too"
    assert found.remedy == (
        f"drain the node, stop the kubelet, set cpuManagerPolicy: none in {CONFIG}, delete "
        "/var/lib/kubelet/cpu_manager_state, start the kubelet"
    )


def test_where_the_kubelet_is_no_service_the_steps_name_the_one_that_runs_it() -> None:
    static = f"{WIRED}cpuManagerPolicy: static"
    remedies = {
        found.name: only(static_managers, healthy(kubelet=kubelet(static, distribution=found))).remedy
        for found in DISTRIBUTIONS
    }
    assert {name for name, remedy in remedies.items() if "stop the kubelet, " in remedy} == {
        *("Talos", "Bottlerocket", "EKS (nodeadm, AL2023)", "kubespray", "kubeadm")
    }
    eks = remedies["EKS (nodeadm, AL2023)"]
    assert eks.endswith(
        "delete /var/lib/kubelet/cpu_manager_state, reboot the node, or replace it by one of the new user data"
    )
    assert "stop the kubelet (systemctl stop k3s (or k3s-agent)), " in remedies["k3s"]
    assert remedies["k3s"].endswith("start the kubelet (systemctl restart k3s (or k3s-agent))")


def test_a_flag_beats_the_file_and_is_what_to_change() -> None:
    flag = settings(WIRED, "--memory-manager-policy=Static", "--root-dir=/k", where="/etc/default/kubelet")
    found = only(static_managers, healthy(kubelet=kubelet(next=flag)))
    assert found.code == "memory-manager"
    assert "set --memory-manager-policy=None in /etc/default/kubelet, delete /k/memory_manager_state" in found.remedy


def test_a_kubelet_that_was_started_with_it_pins_although_its_files_are_right() -> None:
    now = settings(WIRED, "--cpu-manager-policy=static")
    found = only(static_managers, healthy(kubelet=kubelet(now=now)))
    assert found.text.startswith("process 812, --cpu-manager-policy sets cpuManagerPolicy: static")
    assert codes(static_managers, healthy(kubelet=kubelet(now=now, process=None))) == []
    assert codes(former_state, healthy(kubelet=kubelet(now=now, managers=KubeletManagers("static")))) == []


@pytest.mark.parametrize("text", [WIRED, f"{WIRED}cpuManagerPolicy: none\nmemoryManagerPolicy: None\n"])
def test_managers_that_are_off_are_fine(text: str) -> None:
    assert codes(static_managers, healthy(kubelet=kubelet(text))) == []


def test_state_of_a_former_policy_keeps_the_kubelet_from_starting() -> None:
    found = list(former_state(healthy(kubelet=kubelet(managers=STATIC, process=None))))
    assert [finding.code for finding in found] == ["manager-state", "manager-state"]
    assert "/var/lib/kubelet/cpu_manager_state has policy static" in found[0].text
    assert "delete /var/lib/kubelet/memory_manager_state" in found[1].remedy


def test_state_of_the_policy_that_is_configured_is_said_with_that() -> None:
    text = f"{WIRED}cpuManagerPolicy: static\nmemoryManagerPolicy: Static\n"
    assert codes(former_state, healthy(kubelet=kubelet(text, managers=STATIC))) == []
    assert codes(former_state, healthy(kubelet=kubelet(managers=KubeletManagers("none", "None")))) == []


def test_a_topology_manager_without_the_others_is_noted() -> None:
    text = f"{WIRED}topologyManagerPolicy: single-numa-node\n"
    assert "topologyManagerPolicy: single-numa-node" in only(topology_manager, healthy(kubelet=kubelet(text))).text
    assert codes(topology_manager, healthy(kubelet=kubelet(f"{text}cpuManagerPolicy: static\n"))) == []
    assert codes(topology_manager, healthy()) == []


def test_the_options_go_with_the_policy() -> None:
    text = f'{WIRED}cpuManagerPolicy: static\ncpuManagerPolicyOptions: {{full-pcpus-only: "true"}}\n'
    found = only(static_managers, healthy(kubelet=kubelet(text)))
    assert f"remove cpuManagerPolicyOptions from {CONFIG}" in found.remedy
    assert [edit.key for edit in found.edits] == ["cpuManagerPolicy", "cpuManagerPolicyOptions", ""]
    assert (
        codes(refused_settings, healthy(kubelet=kubelet(text.replace("static\n", 'static\nreservedSystemCPUs: "0"\n'))))
        == []
    )


def test_options_that_stay_behind_the_policy_none_keep_the_kubelet_from_starting() -> None:
    text = f'{WIRED}cpuManagerPolicy: none\ncpuManagerPolicyOptions: {{full-pcpus-only: "true"}}\n'
    found = only(refused_settings, healthy(kubelet=kubelet(text)))
    assert found.code == "kubelet-refuses"
    assert f"cpuManagerPolicyOptions.full-pcpus-only: true ({CONFIG})" in found.text
    assert found.remedy == f"remove cpuManagerPolicyOptions from {CONFIG}"


def test_reserved_cpus_are_held_against_those_of_the_node() -> None:
    text = f'{WIRED}reservedSystemCPUs: "0-9"\n'
    assert "CPUs 8-9 are not online" in only(refused_settings, healthy(kubelet=kubelet(text))).text


def test_a_refusal_that_the_managers_remedy_mends_is_said_once() -> None:
    assert codes(refused_settings, healthy(kubelet=kubelet(f"{WIRED}cpuManagerPolicy: static\n"))) == []


def test_a_gate_is_judged_by_the_version_of_the_program() -> None:
    gated = kubelet(f"{WIRED}featureGates: {{CPUManager: true}}\n", version="1.36.3")
    assert "kubelet 1.36 knows no such gate" in only(refused_settings, healthy(kubelet=gated)).text


def test_a_state_file_that_a_crash_has_cut_off_keeps_the_kubelet_from_starting() -> None:
    damaged = KubeletManagers(damaged=("memory_manager_state",))
    found = only(damaged_state, healthy(kubelet=kubelet(managers=damaged)))
    assert found.code == "manager-state"
    assert "/var/lib/kubelet/memory_manager_state is cut off or has no policy" in found.text
    assert "stop the kubelet, delete /var/lib/kubelet/memory_manager_state, start the kubelet" in found.remedy


def test_a_damaged_state_file_is_not_said_twice() -> None:
    damaged = KubeletManagers(damaged=("cpu_manager_state",))
    static = f'{WIRED}cpuManagerPolicy: static\nreservedSystemCPUs: "0"\n'
    assert codes(damaged_state, healthy(kubelet=kubelet(static, managers=damaged))) == []


def test_a_manager_that_keeps_the_kubelet_from_starting_says_why() -> None:
    text = f"{WIRED}memoryManagerPolicy: Static\nreservedMemory: [{{numaNode: 0, limits: {{memory: 1Gi}}}}]\n"
    facts = healthy(kubelet=kubelet(text))
    assert "Until then the kubelet's next start ends with an error: " in only(static_managers, facts).text
    assert codes(refused_settings, facts) == []
    right = healthy(kubelet=kubelet(text.replace("1Gi", "100Mi")))
    assert only(static_managers, right).text.endswith("pins containers too")
