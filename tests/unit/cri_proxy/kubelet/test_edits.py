import pytest

from cri_proxy.kubelet.edits import Edit, edit_at, edit_of
from cri_proxy.kubelet.settings import Setting


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (Edit("/k.yaml", "cpuManagerPolicy", "none"), "set cpuManagerPolicy: none in /k.yaml"),
        (Edit("/k.yaml", "reservedSystemCPUs", "0"), 'set reservedSystemCPUs: "0" in /k.yaml'),
        (Edit("/k.yaml", "kubeReserved.cpu", "500m"), "set kubeReserved.cpu: 500m in /k.yaml"),
        (Edit("/k.yaml", "enforceNodeAllocatable", "pods,none"), "set enforceNodeAllocatable: [pods,none] in /k.yaml"),
        (Edit("/k.yaml", "cpuManagerPolicyOptions"), "remove cpuManagerPolicyOptions from /k.yaml"),
        (Edit("/k.env", "--cpu-manager-policy", "none"), "set --cpu-manager-policy=none in /k.env"),
        (Edit("/k.env", "--feature-gates.MemoryManager"), "remove --feature-gates.MemoryManager from /k.env"),
        (Edit("process 7", "--cpu-manager-policy", "none"), "start the kubelet with --cpu-manager-policy=none"),
        (Edit("process 7", "--cpu-manager-policy-options"), "start the kubelet without --cpu-manager-policy-options"),
        (Edit("/var/lib/kubelet/cpu_manager_state"), "delete /var/lib/kubelet/cpu_manager_state"),
    ],
)
def test_an_edit_reads_as_a_step(edit: Edit, text: str) -> None:
    assert str(edit) == text


def test_a_setting_is_changed_where_it_stands() -> None:
    assert edit_of(Setting("cpuManagerPolicy", "static", "/k.yaml"), "none").place == "/k.yaml"
    flag = edit_of(Setting("cpuManagerPolicy", "static", "/k.env, --cpu-manager-policy"), "none")
    assert (flag.place, flag.key) == ("/k.env", "--cpu-manager-policy")


def test_an_entry_of_a_mapping_keeps_its_name_in_a_flag() -> None:
    assert str(edit_at("/k.env, --kube-reserved", "kubeReserved.cpu", "1")) == "set --kube-reserved=cpu=1 in /k.env"
