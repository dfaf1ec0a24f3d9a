"""What ``version-5.db`` holds, as values of today.

The file was written by the program whose newest version that was, where ``preferences`` of a request was called
``wishes``, and in it ``resource_files`` was called ``tell``. Texts that look like these names must stay.
"""

from cri_proxy.state import decisions as kept
from cri_proxy.state.rows import DisplacedGrant, Row, SandboxRow
from policies.answers import Default
from policies.base import (
    Affinity,
    ContainerKey,
    CpuKind,
    DeviceLocality,
    Expression,
    Grant,
    Pinning,
    Pod,
    Previous,
    QosClass,
    Reason,
    Request,
)
from policies.container_name import ContainerName
from policies.preferences import BurstLevel, CpuPriority, Preferences, Threads
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import MemoryKind

PREFERENCES = Preferences(
    prefer_isolated=True,
    require_isolated=True,
    prefer_shared=False,
    levels_up=2,
    prefer_reserved=False,
    preserve_cpu=True,
    preserve_memory=True,
    threads=Threads.HIDE,
    priority=CpuPriority.HIGH,
    burst_level=BurstLevel.NUMA,
    memory_kinds=(MemoryKind.DRAM, MemoryKind.PMEM),
    strict_memory=True,
    strict_locality=True,
    spread_by_locality=False,
    cold_start_seconds=60,
    resource_files=True,
    notify=("tell", '"tell":', '{"wishes":1}'),
)
LABELS = (("tell", "tell-resources"), ("wishes", '["tell",'))
CPUS, NODES = CpuSet.parse("2-3"), NodeSet.parse("0")
PINNING = Pinning(CPUS, NODES)


def _grant(name: str, origin: str = "cri-proxy.io/tell-resources") -> Grant:
    request = Request(
        ContainerKey("uid-1", name),
        Pod("uid-1", "web", "default", QosClass.GUARANTEED, LABELS),
        cpu_request_mcpu=2000,
        cpu_limit_mcpu=2000,
        memory_request_bytes=1 << 30,
        memory_limit_bytes=1 << 30,
        labels=LABELS,
        preferences=PREFERENCES,
        affinities=(Affinity(Expression("wishes", "In", ("tell", "wishes")), -5, Expression("tell", "Exists")),),
        localities=(DeviceLocality("/dev/tell", CpuSet.parse("0-1"), NODES),),
        previous=Previous("root", CPUS),
        origins=(
            ("cpu_request_mcpu", "cpu_shares"),
            ("resource_files", origin),
            ("without effect: tell", "tell"),
        ),
    )
    return Grant(request, "package #0", CpuKind.EXCLUSIVE, CPUS, mems=NODES)


ROWS = (
    Row(_grant("a"), "s1", "c-a", "running", PINNING, 1, warm_at_seconds=1.5, unconfirmed=PINNING),
    Row(
        _grant("b", "tell-resources.cri-proxy.io/container.b"),
        "s1",
        "",
        "pending",
        None,
        2,
        displaced=(DisplacedGrant(_grant("c"), 3), DisplacedGrant(_grant("d", "x.example/tell-resources"), 4)),
    ),
)
SANDBOX = SandboxRow(
    "s1", ROWS[0].grant.request.pod, (("cri-proxy.io/tell-resources", "true"),), "kubepods", b"\x01tell"
)
_NAMED = ContainerName("default", "web", "a")
DECISION = kept.DecisionRecord(
    ROWS[0].grant.request,
    kept.Outcome.PLACED,
    1000.25,
    0.001,
    kept.granted_of(ROWS[0].grant, PINNING),
    (Reason("tell", 'say "wishes": x'),),
    (kept.RankedPool("root", (("fits", 1), ("depth", 0.5)), "chosen"),),
    3,
    (kept.PinningChange.of(_NAMED, None, PINNING),),
    1,
    (kept.GrantMove(_NAMED, "a", "b", NODES, NodeSet.parse("0-1")),),
    ("annotation tell",),
    (Default("threads", "any", "topologyAware.Hyperthreads=any"),),
    ("near",),
    "",
    (kept.HistoryEntry(1001.0, "tell", "text"),),
    is_confirmed=True,
)
