import re
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.cli.render.pool_tree import TreeShape
from cri_proxy.cli.render.status import render_status
from cri_proxy.cli.render.status_filter import StatusFilter, filtered, left_out
from cri_proxy.in_force.report import FilesReport, FileState, JudgedFile
from cri_proxy.node.status.inventory import HolderView, InventoryDeviceView, InventoryFileView
from cri_proxy.node.status.model import (
    CdiView,
    ConfigurationView,
    CostFilesView,
    DeviceHolderView,
    DeviceUseView,
    HugePageView,
    RefusedView,
)
from policies.alignment import TopologyOptions, TopologyPolicy, TopologyScope
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.views import container, status_view

EXPECTED = """\
worker-1: topology-aware, ready, 4 containers

warning: reservedResources.cpu is not set

free to own: 4 CPUs, 1 isolated; largest Guaranteed container that fits: 3 CPUs
  (4 if sharers move)
  node 0: 0 CPUs (1 if sharers move), node 1: 3 CPUs

package 0   node 0  r· AA
package 1   node 1  ·· ·i
  a letter: owned by that container alone   · shared   r reserved   i isolated,
  free

POOL / CONTAINER         CPUS   USE                      MEM  MEMORY     STATE
root                     1,4-7  4.5 CPUs free            0-1
├─ socket #0             1      0.5 CPUs free            0    15Gi free
│  ├─ A default/web/c0   2-3    2 exclusive              0    1Gi
│  └─ default/web/c1     1      500m shared              0               created
└─ socket #1             4-6    3 CPUs free; isolated 7  1
reserved for the system  0
└─ kube-system/dns/c2    0      100m reserved            0
in no pool
└─ default/web/c3        any    left alone               any
   ! can reach the exclusive CPUs 2-3

MEMORY NODE  KIND  CAPACITY  PROMISED HERE  HERE OR ELSEWHERE  CONTAINERS
0            dram  16Gi      1Gi            -                  2
1            pmem  64Gi      -              -                  0"""


def test_the_whole_picture() -> None:
    assert render_status(status_view()) == EXPECTED


def test_the_map_of_a_filtered_status_keeps_the_cpus_of_those_left_out() -> None:
    whole = status_view()
    chosen = filtered(whole, StatusFilter(namespace="kube-system"))
    text = render_status(chosen, shown=TreeShape(left_out=left_out(whole, chosen)))
    assert "ready, 1 of 4 containers\n" in text
    before, after = (re.findall(r"node \d  (\S+ \S+)", each) for each in (render_status(whole), text))
    assert before == ["r· AA", "·· ·i"]
    assert after == ["r· ##", "·· ·i"]
    assert "# owned by others, which are left out here" in text


def test_the_topology_policy_stands_below_the_title_with_its_scope_and_options() -> None:
    plain = TopologyOptions(TopologyPolicy.RESTRICTED, TopologyScope.POD)
    full = replace(plain, prefers_closest=True, most_nodes=16, prefers_chosen_sets=True)
    lines = [render_status(replace(status_view(), topology=chosen)).splitlines()[1:3] for chosen in (plain, full)]
    assert lines[0] == ["topology policy: restricted, scope pod", ""]
    assert lines[1][0] == "topology policy: restricted, scope pod, prefer-closest-numa-nodes,"
    assert lines[1][1].strip() == "preferred-allocation-hints, max-allowable-numa-nodes 16"
    assert render_status(replace(status_view(), topology=TopologyOptions())) == EXPECTED


def test_a_container_whose_cpus_were_decided_elsewhere_is_marked() -> None:
    claimed = replace(container("c0", "exclusive", "2-3", exclusive=CpuSet.parse("2-3")), claim="DRA_CPUSET_a")
    assert "claimed" in render_status(replace(status_view(), containers=(claimed,)), width=120)


def test_a_reserved_container_stands_with_the_reserved_cpus_whatever_its_pool() -> None:
    view = status_view()
    moved = tuple(replace(c, pool="root") if c.kind == "reserved" else c for c in view.containers)
    assert render_status(replace(view, containers=moved)) == EXPECTED


def test_a_node_that_does_not_decide_yet_says_so() -> None:
    assert "not ready: its warnings tell why" in render_status(replace(status_view(), is_ready=False))


def test_a_column_that_says_nothing_of_anybody_is_left_out() -> None:
    running = tuple(replace(c, state="running") for c in status_view().containers)
    assert "STATE" not in render_status(replace(status_view(), containers=running))


def test_huge_pages_have_a_line_for_each_size_of_a_node() -> None:
    view = status_view()
    pages = (HugePageView("2Mi", 1 << 30, 0, 512 << 20), HugePageView("1Gi", 4 << 30, 1 << 30, 0))
    first = replace(view.memory[0], huge_pages=pages)
    lines = render_status(replace(view, memory=(first, view.memory[1]))).splitlines()
    start = lines.index("MEMORY NODE  HUGE PAGES  CAPACITY  PROMISED HERE  HERE OR ELSEWHERE")
    assert [line.split() for line in lines[start + 1 : start + 3]] == [
        ["0", "2Mi", "1Gi", "-", "512Mi"],
        ["0", "1Gi", "4Gi", "1Gi", "-"],
    ]
    assert "HUGE PAGES" not in render_status(view)


def test_memory_beyond_its_pool_and_a_cold_start_are_marked() -> None:
    wide = container("c0", "shared", "1", pool="socket #0", mems=NodeSet.parse("0-1"), home_mems=NodeSet.of([0]))
    text = render_status(replace(status_view(), containers=(replace(wide, is_cold=True),)))
    assert " 0-1+ " in text
    assert next(line for line in text.splitlines() if "web/c0" in line).endswith("cold")
    assert "\n  + uses memory nodes beyond its pool's\n" in text


def test_violations_and_late_refusals_are_told() -> None:
    refused = RefusedView("default", "giant", "c", 1_700_000_000.0, "refused: wanted 40")
    text = render_status(replace(status_view(), violations=("web runs on CPUs of others",), refused=(refused,)))
    assert "RECENTLY REFUSED\n2023-11-14 22:13:20  default/giant/c: refused: wanted 40\n" in text
    many = render_status(replace(status_view(), refused=(refused,), refused_count=5))
    assert "refused: wanted 40\nand 4 more\n" in many
    assert "violation: web runs on CPUs of others\n\nwarning:" in text


def test_a_wide_terminal_wraps_nothing() -> None:
    cpus = ",".join(str(cpu) for cpu in range(0, 60, 2))
    view = replace(status_view(), containers=(container("c" * 40, "shared", cpus, pool="socket #1"),))
    assert any(cpus in line for line in render_status(view, width=200).splitlines())
    assert max(map(len, render_status(view, width=160).splitlines())) <= 160


def test_without_pools_the_containers_are_still_shown() -> None:
    text = render_status(replace(status_view(), policy="none", pools=()))
    assert all(f"c{i}" in text for i in range(4))


def test_colours_only_add_colour() -> None:
    painted = render_status(status_view(), colours=True)
    assert "\x1b[32m" in painted
    for code in ("0", "1", "2", "32", "33"):
        painted = painted.replace(f"\x1b[{code}m", "")
    assert [line.rstrip() for line in painted.splitlines()] == EXPECTED.splitlines()


long_names = st.text(alphabet="abc-", min_size=1, max_size=70)


@given(st.lists(st.tuples(long_names, st.integers(1, (1 << 200) - 1)), max_size=4))
@settings(max_examples=60, deadline=None)
def test_no_line_is_longer_than_a_terminal_and_no_cpu_is_left_out(names: list[tuple[str, int]]) -> None:
    more = tuple(container(name, "shared", str(CpuSet(mask)), pool="socket #1") for name, mask in names)
    text = render_status(replace(status_view(), containers=status_view().containers + more))
    assert max(map(len, text.splitlines())) <= 80
    for _, mask in names:
        assert all(part in text for part in str(CpuSet(mask)).split(","))


def test_the_configuration_in_force_is_named_with_its_age() -> None:
    known = ConfigurationView("/etc/cri-proxy/c.yaml", "rt", "0123456789abcdef", 1_700_000_000.0)
    line = render_status(replace(status_view(), configuration=known), width=200).splitlines()[1]
    assert line == "configuration: /etc/cri-proxy/c.yaml (group rt), sha256 0123456789ab, since 2023-11-14 22:13:20"


def test_a_configuration_from_before_the_start_is_marked() -> None:
    known = ConfigurationView("/etc/c.yaml", "", "0123456789abcdef", 1_700_000_000.0, is_kept=True)
    assert "/etc/c.yaml (last valid version), sha256" in render_status(replace(status_view(), configuration=known))


def test_without_a_file_no_configuration_is_named() -> None:
    known = ConfigurationView("", "", "", 0.0)
    assert render_status(replace(status_view(), configuration=known)) == render_status(status_view())


def test_devices_have_a_line_for_each_type_and_for_each_further_holder() -> None:
    gpus = tuple(f"example.com/gpu/gpu{i}" for i in range(6))
    view = replace(
        status_view(),
        devices=(
            DeviceUseView(
                "example.com/gpu",
                present=5,
                held=3,
                free=gpus[2:5],
                unlisted=gpus[5:],
                holders=(
                    DeviceHolderView("default/web/c0", gpus[:2]),
                    DeviceHolderView("default/web/c1", gpus[5:]),
                ),
            ),
            DeviceUseView("example.com/nic", present=1, held=0, free=("example.com/nic/eth0",)),
        ),
    )
    expected = """
DEVICES          LISTED  HELD  FREE    HELD BY
example.com/gpu  5       3     gpu2-4  default/web/c0: gpu0-1
                                       default/web/c1: gpu5
                                       no longer listed: gpu5
example.com/nic  1       0     eth0    -
"""
    assert expected in f"{render_status(view)}\n"
    assert "DEVICES" not in render_status(status_view())


def test_cost_files_are_counted_and_those_whose_content_is_not_in_force_named_as_that() -> None:
    files = tuple(JudgedFile(f"{state}.yaml", state) for state in FileState)
    costs = CostFilesView("/etc/cri-proxy/costs.d", FilesReport(0.0, files), 5)
    line = render_status(replace(status_view(), costs=costs), width=200).splitlines()[1]
    expected = "cost files: /etc/cri-proxy/costs.d, 3 files (1 by its last good content, 1 rejected), 5 devices"
    assert line == expected


def test_devices_of_the_inventory_are_counted_by_type() -> None:
    held = InventoryDeviceView("gpu", 0, free=0, holders=(HolderView("default/a/c", 100),))
    devices = (held, InventoryDeviceView("gpu", 1))
    view = replace(status_view(), inventory=(*devices, InventoryDeviceView("rdma", 0, is_missing=True)))
    assert "inventory: gpu 2 (1 free), rdma 0 (0 free)" in render_status(view)
    assert "gpu        2       1     1     default/a/c: 0" in render_status(view)
    file = InventoryFileView("/etc/cri-proxy/devices.yaml", False, FilesReport(0.0))
    assert "inventory: /etc/cri-proxy/devices.yaml, gpu 2" in render_status(replace(view, inventory_file=file))


def test_an_unhealthy_device_of_the_inventory_is_not_free() -> None:
    view = replace(status_view(), inventory=(InventoryDeviceView("gpu", 0, is_healthy=False),))
    assert "inventory: gpu 1 (0 free)" in render_status(view)


def test_a_node_with_an_inventory_says_how_its_devices_get_into_containers() -> None:
    view = replace(status_view(), cdi=CdiView("resolve", "auto", "resolved by cri-proxy"))
    assert "CDI devices" not in render_status(view)
    assert "CDI devices: resolved" in render_status(replace(view, inventory=(InventoryDeviceView("gpu", 0),)))


def test_without_cost_files_none_are_named() -> None:
    assert render_status(replace(status_view(), costs=CostFilesView("/d", FilesReport(0.0)))) == render_status(
        status_view()
    )
