from dataclasses import fields, replace

import pytest

from cri_proxy.cli.render.request import LABELS, render_request
from policies.alignment import TopologyPolicy
from policies.answers import Default
from policies.base import DeviceLocality, HugePageLimit, Previous, Request
from policies.claims import CpuClaim
from policies.device_requests import DeviceAmount, DeviceAsk
from policies.preferences import BurstLevel, CpuPriority, HugePageNodes, Preferences, ThreadCounts, Threads
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import MemoryKind
from tests.fakes.device_policy import listed
from tests.fakes.grants import request

ALL = Preferences(
    prefer_isolated=True,
    prefer_shared=False,
    levels_up=0,
    prefer_reserved=False,
    preserve_cpu=True,
    preserve_memory=True,
    threads=Threads.HIDE,
    priority=CpuPriority.HIGH,
    burst_level=BurstLevel.NUMA,
    memory_kinds=(MemoryKind.DRAM, MemoryKind.PMEM),
    strict_memory=True,
    huge_pages=HugePageNodes.SPREAD,
    strict_huge_pages=True,
    strict_locality=True,
    spread_by_locality=False,
    cold_start_seconds=60,
    resource_files=True,
    thread_counts=ThreadCounts.OWNED,
    notify=("/bin/reload", "now"),
)


def lines(asked: Request, *defaults: Default, width: int = 120) -> list[str]:
    return render_request(asked, defaults, width=width)


def test_every_preference_is_shown() -> None:
    assert lines(replace(request("a", 1500), preferences=ALL))[3:] == [
        "  isolated CPUs  preferred",
        "  shared CPUs    not wanted",
        "  reserved CPUs  not wanted",
        "  CPUs           left alone",
        "  memory nodes   left alone",
        "  hyperthreads   hide",
        "  CPU priority   high",
        "  burst up to    numa",
        "  memory kinds   dram, pmem",
        "  memory kinds   required: no other kind, no more than there is",
        "  huge pages     spread",
        "  huge pages     required on the nodes of its pool",
        "  devices        required to be near",
        "  devices        CPUs wherever in the pool",
        "  cold start     60 s on PMEM",
        "  resource files mounted at /.cri-proxy",
        "  thread counts  owned",
        "  notified       by running /bin/reload now",
    ]


def test_every_preference_has_a_label() -> None:
    assert {field.name for field in fields(Preferences)} <= {field.partition(".")[0] for field in LABELS}


@pytest.mark.parametrize(
    ("preferences", "line"),
    [
        (Preferences(prefer_isolated=True, require_isolated=True), "  isolated CPUs  required"),
        (Preferences(topology_policy=TopologyPolicy.RESTRICTED), "  topology policy restricted"),
        (Preferences(levels_up=2), "  shared CPUs    2 levels above the best pool"),
    ],
)
def test_a_stricter_preference_stands_for_the_milder_one(preferences: Preferences, line: str) -> None:
    assert lines(replace(request("a", 1500), preferences=preferences))[3:] == [line]


def test_the_origin_stands_beside_or_below() -> None:
    asked = replace(
        request("a", 1500), preferences=Preferences(threads=Threads.ANY), origins=(("threads", "x/" + "long" * 12),)
    )
    assert lines(asked)[3] == "  hyperthreads   any                   from x/" + "long" * 12
    assert lines(asked, width=80)[3:] == ["  hyperthreads   any", "                 from x/" + "long" * 12]


def test_what_an_option_decided_names_the_option() -> None:
    default = Default("threads", "any", "topologyAware.Hyperthreads=any")
    assert (
        lines(request("a", 1500), default)[3] == "  hyperthreads   any                   by default: Hyperthreads=any"
    )


def test_memory_that_was_estimated_is_not_shown_to_the_byte() -> None:
    asked = replace(request("a", 0), memory_request_bytes=1571958031, memory_limit_bytes=2 << 30)
    assert lines(asked)[1] == "  memory         about 1.46Gi, limit 2Gi"


def test_hints_and_the_earlier_place_are_part_of_the_request() -> None:
    hint = DeviceLocality("/dev/nvidia0", CpuSet.parse("0-3"), NodeSet.of([0]))
    asked = replace(request("a", 1000), localities=(hint,), previous=Previous("socket #0", CpuSet.parse("2-3")))
    assert lines(asked)[3:] == [
        "  device         /dev/nvidia0: CPUs 0-3, node 0",
        "  earlier place  socket #0, CPUs 2-3",
    ]


def test_huge_pages_are_shown_by_size_with_their_field() -> None:
    pages = (HugePageLimit(2 << 20, 1 << 30), HugePageLimit(1 << 30, 2 << 30))
    asked = replace(request("a", 1500), huge_pages=pages, origins=(("huge_pages", "hugepage_limits"),))
    assert "  huge pages     1Gi of 2Mi, 2Gi of 1Gi  from hugepage_limits" in lines(asked)


def test_devices_that_are_asked_for_and_those_it_had_are_shown() -> None:
    asked = replace(
        request("c0", 1000),
        preferences=Preferences(devices=DeviceAsk((DeviceAmount("example.com/gpu", 2),))),
        origins=(("devices.counts", "cri-proxy.io/device-request"),),
        previous=Previous("", CpuSet(), devices=listed("example.com/gpu/gpu0", "example.com/gpu/gpu1")),
    )
    text = "\n".join(render_request(asked, (), width=80))
    assert "  devices asked  example.com/gpu=2     from cri-proxy.io/device-request" in text
    assert "  earlier place  example.com/gpu gpu0-1" in text


def test_a_device_whose_cpus_alone_are_known_is_on_no_node_in_particular() -> None:
    near = DeviceLocality("example.com/gpu/gpu0", CpuSet.parse("0-7"), NodeSet())
    text = "\n".join(render_request(replace(request("c0", 1000), localities=(near,)), (), width=80))
    assert "  device         example.com/gpu/gpu0: CPUs 0-7\n" in text + "\n"


def test_a_device_is_shown_with_what_named_it() -> None:
    near = DeviceLocality("0000:3b:00.0", CpuSet.parse("0-7"), NodeSet.of([1]), "NVIDIA_VISIBLE_DEVICES")
    text = "\n".join(render_request(replace(request("c0", 1000), localities=(near,)), (), width=120))
    assert "0000:3b:00.0: CPUs 0-7, node 1, named by NVIDIA_VISIBLE_DEVICES" in text


def test_cpus_that_were_decided_elsewhere_are_shown_with_what_decided_them() -> None:
    claim = CpuClaim(CpuSet.parse("4-7"), "DRA_CPUSET_a", NodeSet.of([1]))
    asked = replace(request("c0", 4000), claim=claim, origins=(("claim", "DRA_CPUSET_a"),))
    text = " ".join(" ".join(lines(asked)).split())
    assert "CPUs 4-7, memory of node 1, decided elsewhere from DRA_CPUSET_a" in text
