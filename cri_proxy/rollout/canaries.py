"""Judge by the canaries' reports whether the nodes behind them may take a ConfigMap. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from cri_proxy.foreign_text import visible
from cri_proxy.kube_api.nodes import CONDITION, REJECTED, ListedNode
from cri_proxy.rollout.digests import expected_of

_SHOWN: Final = 3
_DIGITS: Final = 12


class RolloutAction(Enum):
    """What the nodes behind the canaries do."""

    GO = auto()
    WAIT = auto()
    STOP = auto()


@dataclass(frozen=True, slots=True)
class CanaryResult:
    """``reason``: why they wait or stop, with the canary's name; '' where they go on."""

    action: RolloutAction
    reason: str = ""


def judge(selector: str, canaries: Sequence[ListedNode], files: Mapping[str, bytes]) -> CanaryResult:
    """Return what the nodes behind these canaries do with these files."""
    if not canaries:
        return CanaryResult(
            RolloutAction.STOP, f"no Node has the label {selector}: give it to a few nodes that try a change first"
        )
    found = [_of(node, files) for node in canaries]
    stopped = [result.reason for result in found if result.action is RolloutAction.STOP]
    waiting = [result.reason for result in found if result.action is RolloutAction.WAIT]
    if stopped:
        return CanaryResult(RolloutAction.STOP, _some(stopped))
    return CanaryResult(RolloutAction.WAIT, _some(waiting)) if waiting else CanaryResult(RolloutAction.GO)


def _of(node: ListedNode, files: Mapping[str, bytes]) -> CanaryResult:
    file, digest = expected_of(node, files)
    reported = node.reported
    if not file:
        return CanaryResult(
            RolloutAction.STOP, f"for {node.name} the ConfigMap has no file: a default.yaml is one for every node"
        )
    if reported is None:
        options = "cri-proxy exporter --node-condition keeps it there"
        return CanaryResult(RolloutAction.WAIT, f"{node.name} has no condition {CONDITION}: {options}")
    # With another digest it is the content before this one that the canary rejects.
    if reported.reason == REJECTED and reported.digest == digest:
        reason = reported.message.partition(" ")[2].removeprefix("is rejected: ")
        return CanaryResult(RolloutAction.STOP, f"{node.name} rejects {file}: {visible(reason)}")
    if reported.is_ready and reported.digest == digest:
        return CanaryResult(RolloutAction.GO)
    if reported.is_ready:
        has = f"sha256:{reported.digest[:_DIGITS]}" if reported.digest else "a configuration without a digest"
        return CanaryResult(
            RolloutAction.WAIT, f"{node.name} has {has} in force, not yet sha256:{digest[:_DIGITS]} of {file}"
        )
    return CanaryResult(
        RolloutAction.WAIT, f"{node.name} is not ready ({visible(reported.reason)}): {visible(reported.message)}"
    )


def _some(reasons: Sequence[str]) -> str:
    left = len(reasons) - _SHOWN
    return f"{'; '.join(reasons[:_SHOWN])}{f'; and {left} more' if left > 0 else ''}"
