"""Rows to save: one builder for hand-written tests, strategies for properties."""

from typing import get_args

from hypothesis import strategies as st

from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.state.decisions import (
    DecisionRecord,
    Granted,
    GrantMove,
    HistoryEntry,
    Outcome,
    PackedDecision,
    PinningChange,
    with_reasons,
)
from cri_proxy.state.rows import Row, RowState, SandboxRow
from policies.answers import Default
from policies.base import (
    Affinity,
    ContainerKey,
    CpuKind,
    DeviceLocality,
    Grant,
    Pinning,
    Pod,
    Previous,
    QosClass,
    Ranked,
    Reason,
    Request,
)
from policies.container_name import ContainerName
from sysfs.cpuset import CpuSet, NodeSet


def make_row(uid: str = "pod-1", name: str = "c0", *, exclusive: str = "2-3", order: int = 1) -> Row:
    """A running Guaranteed container with exclusive CPUs."""
    request = Request(ContainerKey(uid, name), Pod(uid, "web", "default", QosClass.GUARANTEED), 2000)
    grant = Grant(request, "root", CpuKind.EXCLUSIVE, CpuSet.parse(exclusive), mems=NodeSet.parse("0"))
    pinning = Pinning(CpuSet.parse(exclusive), NodeSet.parse("0"))
    return Row(grant, f"sandbox-of-{uid}", f"id-{uid}-{name}", "running", pinning, order)


def confirmed_cpus(ledger: Ledger, key: ContainerKey) -> CpuSet:
    """The CPUs that are exclusive to this container as far as the runtime has confirmed."""
    return ledger._confirmed.of(key)


def make_sandbox(sandbox_id: str = "s1", *, config: bytes = b"\x0a\x00\xff") -> SandboxRow:
    pod = Pod("pod-1", "web", "default", QosClass.BURSTABLE, (("app", "web"),))
    return SandboxRow(sandbox_id, pod, (("a", "1"), ("b", "ü")), "/kubepods/burstable/podpod-1", config)


uids = st.sampled_from(["u1", "u2", "u3"])
names = st.sampled_from(["a", "b", "c"])
cpusets = st.integers(0, (1 << 70) - 1).map(CpuSet)
cpuset_lists = st.lists(cpusets, max_size=2).map(tuple)
nodesets = st.integers(0, 255).map(NodeSet)
pods = st.builds(
    Pod,
    uid=uids,
    name=st.text(max_size=5),
    namespace=st.text(max_size=5),
    qos=st.sampled_from(QosClass),
    labels=st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=2).map(tuple),
)
keys = st.builds(ContainerKey, uids, names)


def grants() -> st.SearchStrategy[Grant]:
    """Any grant at all: every field of it and of its request, from the annotations of the classes."""
    # Hypothesis would build sets of negative numbers by itself: whatever holds one is spelt out.
    hints = st.builds(DeviceLocality, source=st.text(max_size=5), cpus=cpusets, nodes=nodesets)
    requests = st.builds(
        Request,
        container=keys,
        pod=pods,
        preferences=...,
        affinities=st.lists(st.builds(Affinity, scope=...), max_size=2).map(tuple),
        localities=st.lists(hints, max_size=2).map(tuple),
        previous=st.none() | st.builds(Previous, pool=st.text(max_size=5), owned=cpusets, added=cpuset_lists),
        origins=st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=2).map(tuple),
    )
    return st.builds(
        Grant,
        request=requests,
        pool=st.text(max_size=8),
        kind=st.sampled_from(CpuKind),
        exclusive=cpusets,
        isolated=cpusets,
        shared_mcpu=st.integers(0, 10**6),
        reserved_mcpu=st.integers(0, 10**6),
        mems=nodesets,
        added=cpuset_lists,
    )


pinnings = st.builds(Pinning, cpus=st.none() | cpusets, mems=st.none() | nodesets)
rows = st.builds(
    Row,
    grant=grants(),
    sandbox_id=st.text(max_size=5),
    container_id=st.text(max_size=5),
    state=st.sampled_from(get_args(RowState)),
    acknowledged=st.none() | pinnings,
    unconfirmed=st.none() | pinnings,
    created_order=st.integers(0, 10**9),
    warm_at_seconds=st.none() | st.floats(0, 1e11),
)
sandboxes = st.builds(
    SandboxRow,
    sandbox_id=st.sampled_from(["s1", "s2", "s3"]),
    pod=pods,
    annotations=st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=2).map(tuple),
    cgroup_parent=st.text(max_size=5),
    config=st.binary(max_size=20),
)


def make_record(
    uid: str = "pod-1", name: str = "c0", *, outcome: Outcome = Outcome.PLACED, at_seconds: float = 1.0
) -> DecisionRecord:
    """The record of a decision about the container of ``make_row``."""
    return DecisionRecord(make_row(uid, name).grant.request, outcome, at_seconds, reasons=(Reason("pool", "it fits"),))


def records() -> st.SearchStrategy[DecisionRecord]:
    seconds = st.floats(0, 1e11)
    granted = st.builds(
        Granted, pinning=pinnings, exclusive=cpusets, isolated=cpusets, kind=st.sampled_from(CpuKind), pool=st.text()
    )
    sets: dict[str, st.SearchStrategy[object]] = {
        **dict.fromkeys(("cpus", "cpus_before"), st.none() | cpusets),
        **dict.fromkeys(("mems", "mems_before"), st.none() | nodesets),
    }
    displaced = st.builds(PinningChange, **sets)
    moves = st.builds(GrantMove, mems_before=nodesets, mems=nodesets)
    return st.builds(
        DecisionRecord,
        request=keys.map(lambda key: make_row(key.pod_uid, key.name).grant.request),
        outcome=st.sampled_from(Outcome),
        decided_at_seconds=seconds,
        duration_seconds=seconds,
        granted=st.none() | granted,
        reasons=st.lists(st.builds(Reason), max_size=2).map(tuple),
        ranking=st.lists(st.builds(Ranked, key=st.just((("fits", 1), ("left", 0.5)))), max_size=2).map(with_reasons),
        displaced=st.lists(displaced, max_size=2).map(tuple),
        moves=st.lists(moves, max_size=2).map(tuple),
        problems=st.lists(st.text(max_size=5), max_size=2).map(tuple),
        defaults=st.lists(st.builds(Default), max_size=2).map(tuple),
        history=st.lists(st.builds(HistoryEntry, at_seconds=seconds), max_size=2).map(tuple),
    )


def _packed(key: ContainerKey, pod: str, outlives_row: bool, at_seconds: float, text: str) -> PackedDecision:
    return PackedDecision(key, ContainerName("default", pod, key.name), outlives_row, at_seconds, text)


packed = st.builds(
    _packed,
    key=keys,
    pod=st.text(max_size=5),
    outlives_row=st.booleans(),
    at_seconds=st.floats(0, 1e11),
    text=st.text(max_size=5),
)
