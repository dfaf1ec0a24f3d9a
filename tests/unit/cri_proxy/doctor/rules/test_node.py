import pytest

from cri_proxy.doctor.facts.model import CgroupFacts, RuntimeFacts
from cri_proxy.doctor.rules.node import cgroups, cpu_affinity, isolated_cpus, node_name, reservation, runc
from cri_proxy.kubelet.reservation import NodeCpus
from sysfs.cpuset import CpuSet
from tests.fakes.node_facts import WIRED, codes, cpus, healthy, kubelet, only, proxy, settings


def test_the_nodes_name_comes_from_the_flag_of_the_running_kubelet() -> None:
    now = settings(WIRED, "--hostname-override=Pool-7")
    found = only(node_name, healthy(kubelet=kubelet(now=now)))
    assert found.text == "the kubelet's node is pool-7 (process 812, --hostname-override), and cri-proxy's is worker-1"
    assert "--node-name pool-7" in found.remedy
    assert codes(node_name, healthy(kubelet=kubelet(now=now), proxy=proxy(node_name="pool-7"))) == []


def test_a_daemon_that_is_to_start_takes_the_name_of_the_flag() -> None:
    flagged = settings(WIRED, "--hostname-override=Pool-7")
    both = kubelet(now=flagged, next=flagged)
    assert codes(node_name, healthy(kubelet=both, proxy=proxy(node_name=""))) == []


def test_without_the_flag_it_is_the_hosts() -> None:
    assert codes(node_name, healthy()) == []
    assert "is box (the host's name)" in only(node_name, healthy(host_name="box")).text


@pytest.mark.parametrize(
    ("text", "node", "found"),
    [
        ("", cpus(), []),
        ('reservedSystemCPUs: "0"', cpus(reserved="0"), []),
        ("systemReserved: {cpu: 750m}", cpus(reserved="0"), ["reservation"]),
        ("", cpus(isolated="6-7"), ["reservation"]),
        ("kubeReserved: {cpu: 2}", cpus(reserved="0"), ["reservation-unused"]),
    ],
)
def test_what_the_kubelet_offers_is_compared_with_what_can_be_granted(
    text: str, node: NodeCpus, found: list[str]
) -> None:
    assert codes(reservation, healthy(kubelet=kubelet(text), cpus=node)) == found


def test_the_remedy_is_the_key_of_the_kubelet() -> None:
    assert 'reservedSystemCPUs: "0,6-7"' in only(reservation, healthy(cpus=cpus(reserved="0", isolated="6-7"))).remedy


def test_isolated_cpus_are_available_and_not_reserved() -> None:
    assert codes(isolated_cpus, healthy(cpus=cpus(isolated="6-7"))) == []
    assert "isolates CPUs 7" in only(isolated_cpus, healthy(cpus=cpus(available="0-6", isolated="6-7"))).text
    assert only(isolated_cpus, healthy(cpus=cpus(reserved="0,6", isolated="6-7"))).code == "isolated-reserved"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (CgroupFacts(2, has_cpuset=True), []),
        (CgroupFacts(0, has_cpuset=False), []),
        (CgroupFacts(2, has_cpuset=False), ["no-cpuset"]),
        (CgroupFacts(1, has_cpuset=True), ["old-cgroups"]),
    ],
)
def test_cgroups_need_their_cpuset_controller(found: CgroupFacts, expected: list[str]) -> None:
    assert codes(cgroups, healthy(cgroups=found)) == expected


@pytest.mark.parametrize(
    ("driver", "is_systemd", "is_found"),
    [("systemd", True, False), ("cgroupfs", False, False), ("cgroupfs", True, True), ("systemd", False, True)],
)
def test_both_use_one_cgroup_driver(driver: str, is_systemd: bool, is_found: bool) -> None:
    runtime = RuntimeFacts("/r.sock", config="/etc/containerd/config.toml", is_systemd=is_systemd)
    facts = healthy(kubelet=kubelet(f"cgroupDriver: {driver}"), runtime=runtime)
    assert (codes(cgroups, facts) == ["cgroup-driver"]) is is_found


@pytest.mark.parametrize(
    ("version", "online", "is_found"),
    [
        ("1.1.5+ds1", "0-15", True),
        ("1.0.0-rc93", "0-8", True),
        ("1.1.5", "0-7", False),
        ("1.1.6", "0-15", False),
        ("1.2.8", "0-15", False),
        ("", "0-15", False),
    ],
)
def test_an_old_runc_on_many_cpus_is_named(version: str, online: str, is_found: bool) -> None:
    facts = healthy(runtime=RuntimeFacts("/r.sock", runc=version), cpus=cpus(online))
    assert (codes(runc, facts) == ["old-runc"]) is is_found


def test_without_systemd_an_old_runc_does_no_harm() -> None:
    facts = healthy(
        runtime=RuntimeFacts("/r", runc="1.1.5"), cpus=cpus("0-15"), kubelet=kubelet("cgroupDriver: cgroupfs")
    )
    assert codes(runc, facts) == []


def with_affinity(affinity: str, runc: str = "", kernel: tuple[int, int] | None = None) -> list[str]:
    runtime = RuntimeFacts(runc=runc, affinity=CpuSet.parse(affinity), affinity_file="/etc/systemd/system.conf")
    return [finding.text for finding in cpu_affinity(healthy(runtime=runtime, kernel=kernel))]


@pytest.mark.parametrize(
    ("affinity", "runc", "kernel", "is_found"),
    [
        ("0-3", "", None, True),
        ("0-3", "1.1.5+ds1", (6, 18), True),
        ("0-3", "1.2.7", (6, 18), False),
        ("0-3", "1.3.0", (6, 2), True),
        ("0-3", "1.1.5", (6, 1), False),
        ("0-7", "1.1.5", (6, 18), False),
    ],
)
def test_an_affinity_of_the_runtime_cuts_what_containers_run_on(
    affinity: str, runc: str, kernel: tuple[int, int] | None, is_found: bool
) -> None:
    assert bool(with_affinity(affinity, runc, kernel)) == is_found


def test_what_is_not_known_of_kernel_and_runc_is_said() -> None:
    assert "unless Linux is older than 6.2" in with_affinity("0-3")[0]
    assert "unless" not in with_affinity("0-3", "1.1.5", (6, 18))[0]
    assert "/etc/systemd/system.conf sets CPUAffinity=0-3" in with_affinity("0-3")[0]


def test_the_remedy_of_an_affinity_names_all_cpus_since_an_empty_one_leaves_that_of_systemd() -> None:
    runtime = RuntimeFacts(affinity=CpuSet.parse("0-3"), affinity_file="/etc/systemd/system.conf")
    assert "set CPUAffinity=0-7 in a drop-in" in only(cpu_affinity, healthy(runtime=runtime)).remedy
    assert "CPUAffinity= with all CPUs" in only(cpu_affinity, healthy(runtime=runtime, cpus=None)).remedy


def test_beside_a_cgroup_of_its_own_the_reservation_is_an_amount_where_it_stands() -> None:
    text = f"{WIRED}kubeReserved: {{cpu: 110m}}\nkubeReservedCgroup: /runtime\n"
    found = only(reservation, healthy(kubelet=kubelet(text), cpus=cpus(reserved="0-1")))
    assert [str(edit) for edit in found.edits] == ["set kubeReserved.cpu: 2000m in /var/lib/kubelet/config.yaml"]
