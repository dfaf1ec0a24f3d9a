import pytest

from cri_proxy.doctor.facts.model import ProcessFacts
from cri_proxy.doctor.rules.endpoint import (
    changed_files,
    kubeadm,
    kubelet_files,
    next_start,
    overrides,
    running_kubelet,
)
from cri_proxy.kubelet.settings import KubeletFile, KubeletSettings
from cri_proxy.kubelet.unit import KubeletUnit, Variable
from tests.fakes.node_facts import CONFIG, OURS, THEIRS, WIRED, codes, healthy, kubelet, only, proxy, settings

FLAG = "--container-runtime-endpoint"
ELSEWHERE = f"containerRuntimeEndpoint: {THEIRS}"
EXTRA = "KUBELET_EXTRA_ARGS"


def test_a_flag_that_beats_the_right_file_is_what_to_change() -> None:
    flags = settings(WIRED, f"{FLAG}={THEIRS}", where="/var/lib/kubelet/kubeadm-flags.env")
    found = only(next_start, healthy(kubelet=kubelet(next=flags)))
    assert found.text == (
        f"/var/lib/kubelet/kubeadm-flags.env, {FLAG} has {THEIRS}, which beats {CONFIG}: the kubelet uses it at its "
        "next start"
    )
    assert found.remedy == f"set {FLAG}={OURS} in /var/lib/kubelet/kubeadm-flags.env"


def test_where_no_place_names_one_it_is_the_runtimes() -> None:
    found = only(next_start, healthy(kubelet=kubelet(next=settings(""))))
    assert "no flag and no file of the kubelet names an endpoint" in found.text
    assert "/usr/lib/cri-proxy/kubelet.service.d/10-cri-proxy.conf" in found.remedy
    assert f"{FLAG}={OURS}" in found.remedy


@pytest.mark.parametrize(
    "endpoint",
    [OURS, "/run/cri-proxy/cri-proxy.sock", "unix:/run/cri-proxy/cri-proxy.sock", OURS.replace("/run", "/var/run")],
)
def test_the_endpoint_may_be_written_in_any_way(endpoint: str) -> None:
    assert codes(next_start, healthy(kubelet=kubelet(next=settings(f"containerRuntimeEndpoint: {endpoint}")))) == []


def test_a_kubelet_that_nothing_else_starts_is_started_with_the_flag() -> None:
    flags = settings("", f"{FLAG}={THEIRS}")
    assert only(next_start, healthy(kubelet=kubelet(next=flags))).remedy == f"start the kubelet with {FLAG}={OURS}"


def test_an_environment_file_that_hides_the_drop_in_is_what_to_change() -> None:
    hidden = Variable(EXTRA, f"{FLAG}={OURS}", "/etc/systemd/system/kubelet.service.d/10-cri-proxy.conf")
    unit = KubeletUnit(variables=(Variable(EXTRA, "", "/etc/default/kubelet", hidden),))
    found = only(next_start, healthy(kubelet=kubelet(ELSEWHERE, unit=unit)))
    assert found.text == f"/etc/default/kubelet sets {EXTRA}, so that {hidden.where} has no effect"
    assert found.remedy == f"add {FLAG}={OURS} to the value of {EXTRA} in /etc/default/kubelet"


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [(WIRED, "", []), (WIRED, f"{FLAG}={OURS}", []), (ELSEWHERE, f"{FLAG}={THEIRS}", ["endpoint"])],
)
def test_a_drop_in_that_is_not_needed_or_beaten_by_another_endpoint_is_not_what_to_change(
    text: str, value: str, found: list[str]
) -> None:
    hidden = Variable(EXTRA, f"{FLAG}={OURS}", "/drop-in")
    unit = KubeletUnit(variables=(Variable(EXTRA, value, "/etc/default/kubelet", hidden),))
    assert codes(next_start, healthy(kubelet=kubelet(text, unit=unit))) == found


def test_a_kubelet_that_is_connected_is_right_whatever_its_files_say() -> None:
    assert codes(running_kubelet, healthy(kubelet=kubelet(ELSEWHERE))) == []


def test_a_kubelet_that_is_not_connected_is_restarted_once_its_files_are_right() -> None:
    talks = {"is_client": False, "others": ("/run/containerd/containerd.sock",)}
    found = only(running_kubelet, healthy(kubelet=kubelet(now=settings(ELSEWHERE), **talks)))
    assert found.text == (
        "the running kubelet (process 812) uses /run/containerd/containerd.sock and is not connected to cri-proxy"
    )
    assert found.remedy == "systemctl daemon-reload && systemctl restart kubelet"
    found = only(running_kubelet, healthy(kubelet=kubelet(ELSEWHERE, **talks)))
    assert found.remedy.startswith("once its files are right: ")


def test_a_kubelet_with_the_right_flags_may_be_about_to_connect() -> None:
    found = only(running_kubelet, healthy(kubelet=kubelet(is_client=False)))
    assert found.remedy.startswith("run this again in a minute")
    younger = (KubeletFile(CONFIG, WIRED, 2000.0),)
    found = only(running_kubelet, healthy(kubelet=kubelet(is_client=False, files=younger)))
    assert found.remedy.endswith("systemctl restart kubelet")
    assert "minute" not in found.remedy


def test_what_keeps_it_away_is_said_once() -> None:
    assert codes(running_kubelet, healthy(kubelet=kubelet(is_client=False), proxy=proxy(silence="refused"))) == []


def test_connections_that_are_not_seen_leave_the_flags() -> None:
    assert codes(running_kubelet, healthy(kubelet=kubelet(is_client=None))) == []
    found = only(running_kubelet, healthy(kubelet=kubelet(ELSEWHERE, is_client=None)))
    assert f"uses {THEIRS}" in found.text


def test_a_kubelet_inside_another_program_is_noted() -> None:
    inside = kubelet("", process=ProcessFacts(5, "k3s-server"), is_client=True)
    assert codes(running_kubelet, healthy(kubelet=inside)) == ["kubelet-embedded"]
    assert codes(next_start, healthy(kubelet=inside)) == []


def test_a_kubelet_inside_another_program_has_no_unit_to_restart() -> None:
    inside = healthy(kubelet=kubelet("", process=ProcessFacts(5, "k3s-server"), is_client=False))
    embedded, elsewhere = running_kubelet(inside)
    assert (embedded.code, elsewhere.code) == ("kubelet-embedded", "kubelet-elsewhere")
    assert elsewhere.remedy.endswith(": restart k3s-server")


def test_no_kubelet_is_noted() -> None:
    assert codes(running_kubelet, healthy(kubelet=kubelet(process=None, is_client=None))) == ["kubelet-stopped"]


def test_files_that_are_younger_than_the_process_are_named() -> None:
    files = (KubeletFile("/a", "", 1001.0), KubeletFile("/b", "", 1002.5))
    assert only(changed_files, healthy(kubelet=kubelet(files=files))).text.startswith(
        "/b has changed since the kubelet"
    )
    assert codes(changed_files, healthy(kubelet=kubelet(files=files, process=None))) == []


def test_a_file_that_the_kubelet_cannot_read_is_named() -> None:
    broken = settings("- a")
    assert only(kubelet_files, healthy(kubelet=kubelet(next=broken))).text.startswith(f"{CONFIG}: ")


def test_an_override_is_noted_with_what_it_beats() -> None:
    flags = settings(f"{WIRED}cpuManagerPolicy: none", "--cpu-manager-policy=static", where="/e")
    assert only(overrides, healthy(kubelet=kubelet(next=flags))).text == (
        f"/e, --cpu-manager-policy sets cpuManagerPolicy: static, and beats none of {CONFIG}"
    )


@pytest.mark.parametrize(
    ("instance", "found"),
    [
        (settings(ELSEWHERE), ["kubeadm-endpoint", "kubeadm-annotation"]),
        (settings(WIRED), ["kubeadm-annotation"]),
        (settings(""), ["kubeadm-annotation"]),
        (None, ["kubeadm-annotation"]),
    ],
)
def test_what_kubeadm_would_put_back_is_named(instance: KubeletSettings | None, found: list[str]) -> None:
    assert codes(kubeadm, healthy(kubelet=kubelet(instance=instance, is_of_kubeadm=True))) == found


def test_the_annotation_is_set_on_the_node_by_its_name_in_the_cluster() -> None:
    flags = settings(WIRED, "--hostname-override=n7")
    found = only(kubeadm, healthy(kubelet=kubelet(next=flags, is_of_kubeadm=True)))
    assert f"kubectl annotate node n7 --overwrite kubeadm.alpha.kubernetes.io/cri-socket={OURS}" in found.remedy
    assert codes(kubeadm, healthy()) == []


def test_our_endpoint_that_beats_another_is_as_it_should_be() -> None:
    flags = settings(ELSEWHERE, f"{FLAG}={OURS}")
    assert codes(overrides, healthy(kubelet=kubelet(next=flags))) == []


def test_a_place_that_agrees_with_the_stronger_one_is_not_beaten() -> None:
    flags = settings("cgroupDriver: systemd\n", "--cgroup-driver=systemd")
    assert codes(overrides, healthy(kubelet=kubelet(next=flags))) == []
