from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.config.load import parse_config
from cri_proxy.config.option_groups import TopologyManager
from cri_proxy.config.resolve import Resolved, available_now, policy_options
from cri_proxy.config.thread_variables import MAX_VARIABLES
from cri_proxy.errors import ConfigError
from policies.options import PolicyOptions
from policies.preferences import BurstLevel, CpuPriority, ThreadCounts, Threads
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.model import Machine
from tests.fakes.machines import machines, small_machine


def resolve(text: str, root: Path, machine: Machine | None = None) -> Resolved:
    return policy_options(parse_config(text), machine or small_machine(), root)


def cgroup(root: Path, file: str, cpus: str) -> None:
    path = root / "sys/fs/cgroup" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(cpus + "\n")


def cpus(resolved: Resolved) -> tuple[str, str]:
    return str(resolved.options.available), str(resolved.options.reserved)


def test_without_cgroups_every_online_cpu_is_available(tmp_path: Path) -> None:
    assert cpus(resolve("", tmp_path, small_machine(offline="6-7"))) == ("0-5", "")


@pytest.mark.parametrize(
    "file", ["cpuset.cpus.effective", "cpuset/cpuset.effective_cpus", "cpuset/effective_cpus"], ids=["v2", "v1", "bare"]
)
def test_the_root_cgroup_bounds_the_default(tmp_path: Path, file: str) -> None:
    cgroup(tmp_path, file, "2-5,9")
    assert cpus(resolve("", tmp_path)) == ("2-5", "")


@pytest.mark.parametrize(
    ("root_file", "pods_file"),
    [
        ("cpuset.cpus.effective", "kubepods.slice/cpuset.cpus.effective"),
        ("cpuset/cpuset.effective_cpus", "cpuset/kubepods/cpuset.effective_cpus"),
    ],
    ids=["v2", "v1"],
)
def test_a_cpu_that_the_pods_cgroup_lacks_is_not_given_out_and_told(
    tmp_path: Path, root_file: str, pods_file: str
) -> None:
    """Cgroup v1 takes a CPU that goes offline out of every set but the root's, for good."""
    cgroup(tmp_path, root_file, "0-7")
    cgroup(tmp_path, pods_file, "0-2,4-7")
    resolved = resolve("reservedResources: {cpu: 1}", tmp_path)
    assert cpus(resolved) == ("0-2,4-7", "0")
    assert "CPU 3 is online, but the pods' cgroup" in resolved.warnings[0]


def test_a_pods_cgroup_without_a_cpu_in_common_says_nothing(tmp_path: Path) -> None:
    cgroup(tmp_path, "cpuset.cpus.effective", "0-3")
    cgroup(tmp_path, "kubepods/cpuset.cpus.effective", "4-7")
    resolved = resolve("reservedResources: {cpu: 1}", tmp_path)
    assert (cpus(resolved), resolved.warnings) == (("0-3", "0"), ())


def test_what_the_available_cpus_follow_is_known(tmp_path: Path) -> None:
    cgroup(tmp_path, "cpuset.cpus.effective", "0-5")
    cgroup(tmp_path, "apps/cpuset.cpus.effective", "2-3")
    texts = ["", 'availableResources: {cpu: "apps/"}', 'availableResources: {cpu: "cpuset:1"}']
    found = [available_now(parse_config(text), tmp_path) for text in texts]
    assert found == ["0-5", "2-3", ""]
    assert "is no cgroup" in available_now(parse_config('availableResources: {cpu: "none/"}'), tmp_path)


def test_an_exclusion_is_taken_from_the_default(tmp_path: Path) -> None:
    cgroup(tmp_path, "cpuset.cpus.effective", "0-5")
    assert cpus(resolve('availableResources: {cpu: "exclude-cpuset:0,4-7"}', tmp_path)) == ("1-3", "")


def test_a_list_is_taken_as_it_is(tmp_path: Path) -> None:
    cgroup(tmp_path, "cpuset.cpus.effective", "0-1")
    assert cpus(resolve('availableResources: {cpu: "cpuset:4-7"}', tmp_path)) == ("4-7", "")


@pytest.mark.parametrize("directory", ["/sys/fs/cgroup/pods", "/pods", "./pods"])
def test_a_cgroup_directory_is_absolute_or_below_the_mount(tmp_path: Path, directory: str) -> None:
    cgroup(tmp_path, "pods/cpuset.cpus.effective", "1,3")
    assert cpus(resolve(f"availableResources: {{cpu: {directory}}}", tmp_path)) == ("1,3", "")


def test_without_a_reservation_there_is_a_warning(tmp_path: Path) -> None:
    (warning,) = resolve("", tmp_path).warnings
    assert "reservedResources.cpu is not set" in warning
    assert resolve("policy: none", tmp_path).warnings == ()


def test_a_reservation_of_nothing_is_a_decision(tmp_path: Path) -> None:
    resolved = resolve('reservedResources: {cpu: "0"}', tmp_path)
    assert (cpus(resolved), resolved.warnings) == (("0-7", ""), ())


def test_a_quantity_is_rounded_up_to_cpus_inside_the_available_ones(tmp_path: Path) -> None:
    text = 'availableResources: {cpu: "cpuset:2-7"}\nreservedResources: {cpu: 1200m}'
    assert cpus(resolve(text, tmp_path)) == ("2-7", "2-3")


def test_a_reservation_by_exclusion_is_what_is_left_of_the_available_cpus(tmp_path: Path) -> None:
    text = 'availableResources: {cpu: "cpuset:1-6"}\nreservedResources: {cpu: "exclude-cpuset:3-7"}'
    assert cpus(resolve(text, tmp_path)) == ("1-6", "1-2")


def test_offline_cpus_in_a_list_are_reported(tmp_path: Path) -> None:
    text = 'availableResources: {cpu: "cpuset:5-7"}\nreservedResources: {cpu: "cpuset:5"}'
    resolved = resolve(text, tmp_path, small_machine(offline="6-7"))
    assert cpus(resolved) == ("5", "5")
    assert resolved.warnings == ("availableResources.cpu: CPU 6-7 is offline and not used",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('availableResources: {cpu: "cpuset:0-8"}', "CPU 8 does not exist; online are 0-7"),
        ('availableResources: {cpu: "exclude-cpuset:0-7"}', "exclude-cpuset:0-7 leaves no CPU"),
        ("availableResources: {cpu: /no/such}", "/no/such is no cgroup with a cpuset"),
        (
            'availableResources: {cpu: "cpuset:0-3"}\nreservedResources: {cpu: "cpuset:3-4"}',
            "CPU 4 is not available; available are 0-3",
        ),
        ('availableResources: {cpu: "cpuset:0-1"}\nreservedResources: {cpu: "3"}', "cannot reserve 3: only 2 CPUs"),
        ('reservedResources: {cpu: "exclude-cpuset:0-7"}', "exclude-cpuset:0-7 leaves none of the available CPUs 0-7"),
    ],
)
def test_cpus_that_are_not_there_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        resolve(text, tmp_path)


def test_a_cgroup_file_of_garbage_is_named(tmp_path: Path) -> None:
    cgroup(tmp_path, "cpuset.cpus.effective", "0-")
    with pytest.raises(ConfigError, match=r"cpuset\.cpus\.effective: expected a list"):
        resolve("", tmp_path)


def test_a_cgroup_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "sys/fs/cgroup/cpuset.cpus.effective").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"cpuset\.cpus\.effective: cannot read: Is a directory"):
        resolve("", tmp_path)


@given(machines(), st.integers(0, 4000))
@settings(max_examples=60, deadline=None)
def test_the_reserved_cpus_are_available_and_enough(machine: Machine, mcpu: int) -> None:
    try:
        options = resolve(f"reservedResources: {{cpu: {mcpu}m}}", Path("/nonexistent"), machine).options
    except ConfigError:
        assert mcpu > 1000 * len(machine.online)
        return
    assert options.reserved <= options.available
    assert len(options.reserved) == -(-mcpu // 1000)


def test_the_machine_to_place_on_has_the_memory_that_the_operator_tells(tmp_path: Path) -> None:
    machine = resolve("memoryKinds: {1: hbm}", tmp_path).machine
    assert [node.kind.value for node in machine.nodes] == ["dram", "hbm"]


def resolved(text: str) -> TopologyAwareOptions:
    options = policy_options(parse_config(f"topologyAware: {text}"), small_machine(), Path("/nonexistent")).options
    assert isinstance(options, TopologyAwareOptions)
    return options


def test_the_options_of_a_policy_and_the_cpus_of_the_machine_reach_it_together() -> None:
    options = resolved("{PinCPU: false, ReservedPoolNamespaces: [a, b]}")
    assert (options.pin_cpu, options.reserved_namespaces) == (False, ("a", "b"))
    assert options.available == small_machine().online


def test_a_policy_without_options_is_given_the_cpus_alone() -> None:
    config = parse_config("policy: none\ntopologyAware: {PinCPU: false}\nreservedResources: {cpu: 1}")
    cpus = small_machine().online, CpuSet.parse("0")
    found = policy_options(config, small_machine(), Path("/nonexistent")).options
    assert found == PolicyOptions(*cpus, TopologyManager())


@pytest.mark.parametrize("choice", ["auto", "true", "false"])
def test_l3_pools_are_a_choice_or_left_to_the_machine(choice: str) -> None:
    assert resolved(f"{{L3Pools: {choice}}}").l3_pools == choice


@pytest.mark.parametrize("level", BurstLevel)
def test_every_burst_level_of_the_policy_can_be_configured(level: BurstLevel) -> None:
    assert resolved(f"{{UnlimitedBurstable: {level}}}").unlimited_burst is level


@pytest.mark.parametrize("threads", Threads)
def test_every_use_of_thread_siblings_can_be_configured(threads: Threads) -> None:
    assert resolved(f"{{Hyperthreads: {threads}}}").threads is threads


@pytest.mark.parametrize("priority", CpuPriority)
def test_every_priority_can_be_configured(priority: CpuPriority) -> None:
    assert resolved(f"{{DefaultCPUPriority: {priority}}}").cpu_priority is priority


@pytest.mark.parametrize("key", ["LiftQuota", "FractionShares"])
def test_what_can_make_a_kubelet_resize_again_and_again_is_warned_of(key: str) -> None:
    config = parse_config(f"reservedResources: {{cpu: 1}}\ntopologyAware: {{{key}: true}}")
    (warning,) = policy_options(config, small_machine()).warnings
    assert warning.startswith(f"topologyAware.{key} is on: ")


def test_thread_counts_have_a_bound_and_a_sensible_default() -> None:
    config = parse_config("threadCounts: {from: request}")
    assert (config.thread_counts.source, config.thread_counts.variables[0]) == (ThreadCounts.REQUEST, "GOMAXPROCS")
    names = ", ".join(f"N{number}" for number in range(MAX_VARIABLES + 1))
    with pytest.raises(ConfigError, match="expected at most 32 names, got 33"):
        policy_options(parse_config(f"threadCounts: {{variables: [{names}]}}"), small_machine())
