import pytest

from cri_proxy.doctor.catalog import Finding, FindingCode, Severity
from cri_proxy.doctor.report import DoctorReport, Seen, examine, examine_removal
from tests.fakes.node_facts import CONFIG, WIRED, cpus, healthy, kubelet, proxy


def test_a_healthy_node_has_no_findings_and_says_what_was_seen() -> None:
    report = examine(healthy())
    assert (report.findings, report.status) == ((), 0)
    assert report.seen == (
        Seen("kubelet", "process 812, connected to /run/cri-proxy/cri-proxy.sock"),
        Seen("its files", CONFIG),
        Seen("cri-proxy", "/run/cri-proxy/cri-proxy.sock, process 640, ready"),
        Seen("runtime", "/run/containerd/containerd.sock"),
        Seen("cgroups", "v2"),
        Seen("CPUs", "online 0-7, available 0-7, reserved none"),
    )


def test_findings_stand_in_the_order_in_which_to_act() -> None:
    """What must be mended first; the proxy before the kubelet that is to be restarted into it."""
    facts = healthy(
        kubelet=kubelet(f"{WIRED}cpuManagerPolicy: static\n", is_client=False),
        proxy=proxy(problems=("the store is away",), node_name="other"),
        cpus=cpus(reserved="0"),
    )
    found = [finding.code for finding in examine(facts).findings]
    assert found == ["proxy-not-ready", "cpu-manager", "kubelet-elsewhere", "reservation", "node-name"]
    order = [str(code) for code in FindingCode]
    must = [name for name in found if name in order[: order.index("kubelet-changed")]]
    assert must == sorted(must, key=order.index)


def finding(severity: Severity) -> Finding:
    return Finding("code", severity, "text")


@pytest.mark.parametrize(
    ("findings", "unseen", "status"),
    [
        ((), (), 0),
        ((finding(Severity.SHOULD), finding(Severity.NOTE)), (), 0),
        ((finding(Severity.MUST),), (), 1),
        ((finding(Severity.MUST),), ("the CPUs",), 1),
        ((finding(Severity.NOTE),), ("the CPUs",), 2),
    ],
)
def test_the_exit_status_is_what_automation_needs(
    findings: tuple[Finding, ...], unseen: tuple[str, ...], status: int
) -> None:
    assert DoctorReport((), findings, unseen).status == status


def test_what_could_not_be_looked_at_is_said() -> None:
    facts = healthy(no_cpus="no such file", no_connections="not permitted", cpus=None)
    assert examine(facts).unseen == (
        "the node's CPUs: no such file",
        "whom the running kubelet talks to: not permitted",
    )


def test_a_removal_asks_for_the_kubelet_alone() -> None:
    facts = healthy(kubelet=kubelet(is_client=False), proxy=proxy(is_running=False), no_cpus="no such file")
    report = examine_removal(facts)
    assert {finding.code for finding in report.findings} == {"uses-proxy"}
    assert report.unseen == ()
    assert examine_removal(healthy(kubelet=kubelet(is_client=None), no_connections="no")).unseen != ()


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({"process": None}, "does not run"),
        ({"is_client": None}, "process 812, connections not seen"),
        ({"is_client": False}, "process 812, not connected to cri-proxy"),
        (
            {"is_client": False, "others": ("/run/containerd/containerd.sock",)},
            "process 812, connected to /run/containerd/containerd.sock, not to cri-proxy",
        ),
    ],
)
def test_the_kubelets_state_is_said_in_a_few_words(change: dict[str, object], state: str) -> None:
    assert examine(healthy(kubelet=kubelet(**change))).seen[0] == Seen("kubelet", state)


def test_how_containers_get_cdi_devices_is_shown_where_it_is_known() -> None:
    report = examine(healthy(proxy=proxy(cdi="resolved by cri-proxy (containerd 1.6.20 ignores CDI names)")))
    assert Seen("CDI devices", "resolved by cri-proxy (containerd 1.6.20 ignores CDI names)") in report.seen
