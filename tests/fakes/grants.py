"""A small machine, a policy on it, and rows with grants: for tests of the node's parts."""

from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.signals import Signal
from cri_proxy.state.rows import Row, RowState
from policies.base import ContainerKey, CpuKind, Grant, Pinning, Pod, QosClass, Request
from policies.builder import build_policy
from policies.policy import Policy
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.descriptions.machine import describe


def small_policy(reserved: str = "0") -> Policy:
    machine = describe({"packages": 2, "cores": 4})
    return build_policy("topology-aware", machine, TopologyAwareOptions(machine.online, CpuSet.parse(reserved)))


def request(name: str, mcpu: int, *, uid: str = "pod-1", qos: QosClass = QosClass.GUARANTEED) -> Request:
    return Request(ContainerKey(uid, name), Pod(uid, uid, "default", qos), mcpu)


def row(
    name: str, *, owned: str = "", acknowledged: str | None = None, state: RowState = "running", pool: str = "root"
) -> Row:
    kind = CpuKind.EXCLUSIVE if owned else CpuKind.SHARED
    grant = Grant(request(name, 1000 * len(CpuSet.parse(owned))), pool, kind, CpuSet.parse(owned))
    pinning = None if acknowledged is None else Pinning(CpuSet.parse(acknowledged), None)
    return Row(grant, "sandbox-1", f"id-{name}", state, pinning, 1)


def ledger_with(*rows: Row, changed: Signal[[]] | None = None) -> Ledger:
    """A ledger of the small policy in which these rows' pinnings are confirmed."""
    ledger = Ledger(small_policy(), changed)
    ledger.put(*rows)
    for each in rows:
        if each.acknowledged is not None:
            ledger.confirm(each.key, each.acknowledged)
    return ledger


NODES = NodeSet.parse("0-1")
