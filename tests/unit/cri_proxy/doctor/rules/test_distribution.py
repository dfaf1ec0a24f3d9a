from dataclasses import replace

import pytest

from cri_proxy.doctor.facts.model import RuntimeFacts
from cri_proxy.doctor.rules.distribution import distribution, kubevirt, own_runtime
from cri_proxy.doctor.rules.endpoint import next_start
from cri_proxy.kubelet.distributions import DISTRIBUTIONS, KubernetesDistribution
from tests.fakes.node_facts import OURS, codes, healthy, kubelet, only, settings

BY_NAME = {each.name: each for each in DISTRIBUTIONS}
K3S = BY_NAME["k3s"]


@pytest.mark.parametrize("found", [BY_NAME["Talos"], BY_NAME["Bottlerocket"]])
def test_a_distribution_that_leaves_no_place_says_why(found: KubernetesDistribution) -> None:
    finding = only(distribution, healthy(kubelet=kubelet(distribution=found)))
    assert (finding.code, finding.severity) == ("unsupported", "must")
    assert found.why_not in finding.text


def test_a_known_distribution_is_named_with_its_place() -> None:
    finding = only(distribution, healthy(kubelet=kubelet(distribution=K3S)))
    assert "kubelet-arg in /etc/rancher/k3s/config.yaml" in finding.text
    assert "container-runtime-endpoint of k3s itself stays unset" in finding.text
    assert codes(distribution, healthy()) == []


def test_the_endpoint_is_set_among_the_kubelets_arguments_and_never_as_k3s_own() -> None:
    drop_in = "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/00-k3s-defaults.conf"
    coming = settings(f"containerRuntimeEndpoint: unix://{K3S.runtime}", path=drop_in)
    finding = only(next_start, healthy(kubelet=kubelet(next=coming, distribution=K3S)))
    assert finding.remedy == f"set kubelet-arg container-runtime-endpoint={OURS} in /etc/rancher/k3s/config.yaml"


def test_the_containerd_of_the_distribution_must_be_the_one_behind_us() -> None:
    facts = healthy(kubelet=kubelet(distribution=K3S))
    finding = only(own_runtime, facts)
    assert finding.remedy == f"set runtimeEndpoint: unix://{K3S.runtime} in cri-proxy's configuration"
    assert codes(own_runtime, replace(facts, runtime=RuntimeFacts(K3S.runtime))) == []
    assert codes(own_runtime, replace(facts, runtime=RuntimeFacts())) == []
    assert codes(own_runtime, healthy()) == []


def test_kubevirt_is_told_what_the_policy_none_means_to_it() -> None:
    socket = "/var/lib/kubelet/device-plugins/kubevirt-kvm.sock"
    assert "cpumanager=false" in only(kubevirt, healthy(kubevirt=socket)).text
    assert codes(kubevirt, healthy()) == []
