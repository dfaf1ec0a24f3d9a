from hashlib import sha256

import pytest

from cri_proxy.kube_api.nodes import ListedNode, ReportedState, with_digest
from cri_proxy.rollout.canaries import RolloutAction, judge

FILES = {"default.yaml": b"new", "group.rt.yaml": b"rt"}
NEW, OLD = sha256(b"new").hexdigest(), sha256(b"old").hexdigest()
IN_FORCE = ReportedState(True, "Ready", with_digest(NEW, "is in force: containers are placed by it"))


def rejected(digest: str, reason: str = "default.yaml:1: polcy: unknown option") -> ReportedState:
    return ReportedState(False, "ConfigurationRejected", with_digest(digest, f"is rejected: {reason}"))


def canary(reported: ReportedState | None, name: str = "w1", **labels: str) -> ListedNode:
    return ListedNode(name, {f"cri-proxy.io/{key}": value for key, value in labels.items()}, (), reported)


@pytest.mark.parametrize(
    ("node", "action", "words"),
    [
        (canary(IN_FORCE), RolloutAction.GO, ""),
        (canary(None), RolloutAction.WAIT, "w1 has no condition CriProxyReady: cri-proxy exporter --node-condition"),
        (canary(rejected(NEW)), RolloutAction.STOP, "w1 rejects default.yaml: default.yaml:1: polcy: unknown option"),
        (canary(rejected(OLD)), RolloutAction.WAIT, "w1 is not ready (ConfigurationRejected)"),
        (canary(rejected("")), RolloutAction.WAIT, "w1 is not ready (ConfigurationRejected)"),
        (
            canary(ReportedState(True, "Ready", with_digest(OLD, "x"))),
            RolloutAction.WAIT,
            f"has sha256:{OLD[:12]} in force",
        ),
        (canary(ReportedState(True, "Ready", "x")), RolloutAction.WAIT, "a configuration without a digest in force"),
        (
            canary(ReportedState(False, "DaemonAway", "no answer")),
            RolloutAction.WAIT,
            "w1 is not ready (DaemonAway): no answer",
        ),
        (
            canary(ReportedState(False, "NotReady", with_digest(NEW, "x"))),
            RolloutAction.WAIT,
            "w1 is not ready (NotReady)",
        ),
        (canary(IN_FORCE, group="rt"), RolloutAction.WAIT, "of group.rt.yaml"),
        (
            canary(rejected(sha256(b"rt").hexdigest(), "no"), group="rt"),
            RolloutAction.STOP,
            "w1 rejects group.rt.yaml: no",
        ),
    ],
)
def test_a_canary_says_by_its_condition_whether_others_follow(
    node: ListedNode, action: RolloutAction, words: str
) -> None:
    result = judge("canary", [node], FILES)
    assert result.action is action
    assert words in result.reason


def test_without_a_canary_nothing_has_tried_it() -> None:
    result = judge("pool=canary", [], FILES)
    assert (result.action, "no Node has the label pool=canary" in result.reason) == (RolloutAction.STOP, True)


def test_one_that_rejects_stops_it_whatever_others_do_and_many_reasons_are_cut() -> None:
    nodes = [canary(IN_FORCE, "w0"), canary(None, "w1"), *(canary(rejected(NEW), f"x{i}") for i in range(5))]
    result = judge("canary", nodes, FILES)
    assert result.action is RolloutAction.STOP
    assert "w1" not in result.reason
    assert result.reason.endswith("; and 2 more")
    assert judge("canary", nodes[:2], FILES).action is RolloutAction.WAIT


def test_a_configmap_without_a_file_for_the_canary_is_not_tried_by_it() -> None:
    result = judge("canary", [canary(IN_FORCE)], {"group.rt.yaml": b"rt"})
    assert (result.action, "for w1 the ConfigMap has no file" in result.reason) == (RolloutAction.STOP, True)
