"""Decide on containers that are not created: where they would land now, who would move, or why not. Changes nothing.

The messages are those that a kubelet would send, read as a create is read, and decided by the same policy with what is
held now. Each decision counts for the next; ledger, store and runtime never hear of them. The kubelet is not asked for
devices, as it has chosen none.
"""

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from google.protobuf.message import DecodeError

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.foreign_text import SENTENCE_BYTES, admit
from cri_proxy.intercept.reader import Reader
from cri_proxy.node.node import Node
from policies.base import Allocations, ContainerKey, Grant, Pinning, Placed, Rejected, Request
from policies.device_grants import device_words
from policies.policy import Policy

Turn: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]

MOST_CONTAINERS: Final = 500
MOST_BYTES: Final = 1 << 20  # of a body, which the admin socket bounds too


@dataclass(frozen=True, slots=True)
class FitMove:
    """A container that would be moved to make room, with its CPUs and memory nodes before and after."""

    container: str
    cpus_before: str
    cpus: str
    mems_before: str
    mems: str


@dataclass(frozen=True, slots=True)
class ContainerFit:
    """Where a container would land. ``refused`` is why not, '' where it would be placed; then the rest says where.

    ``narrowed`` counts the containers whose shared CPUs become fewer without being moved.
    """

    container: str
    refused: str = ""
    kind: str = ""
    pool: str = ""
    cpus: str = ""
    own_cpus: str = ""
    mems: str = ""
    devices: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    moves: tuple[FitMove, ...] = ()
    narrowed: int = 0


@dataclass(frozen=True, slots=True)
class FitView:
    """The answer: one for each container, in their order; ``problem`` is why the question cannot be answered."""

    containers: tuple[ContainerFit, ...] = ()
    problem: str = ""


_LABELS_OF_POD: Final = ("io.kubernetes.pod.name", "io.kubernetes.pod.namespace", "io.kubernetes.pod.uid")


@dataclass(frozen=True, slots=True)
class AskedCreate:
    """A container that might be created, as CRI messages."""

    sandbox: pb.PodSandboxConfig
    create: pb.CreateContainerRequest


def encode_creates(asked: Sequence[AskedCreate]) -> str:
    """Return the body of the question: pairs of messages in base64, without what no decision looks at."""
    messages = [(_short_sandbox(each.sandbox), _short_create(each)) for each in asked]
    return json.dumps([[base64.b64encode(part.SerializeToString()).decode() for part in pair] for pair in messages])


def _short_sandbox(config: pb.PodSandboxConfig) -> pb.PodSandboxConfig:
    found = pb.PodSandboxConfig()
    found.CopyFrom(config)
    for name in ("log_directory", "dns_config"):
        found.ClearField(name)
    return found


def _short_create(asked: AskedCreate) -> pb.CreateContainerRequest:
    """Return the create without its copy of the sandbox, and without labels that the sandbox has."""
    found = pb.CreateContainerRequest()
    found.CopyFrom(asked.create)
    found.ClearField("sandbox_config")
    config, security = found.config, found.config.linux.security_context
    for name in ("command", "args", "log_path"):
        config.ClearField(name)
    for name in ("masked_paths", "readonly_paths"):
        security.ClearField(name)
    for name, value in asked.sandbox.labels.items():
        if config.labels.get(name) == value:
            del config.labels[name]
    return found


def _with_labels(sandbox: pb.PodSandboxConfig, create: pb.CreateContainerRequest) -> AskedCreate:
    """Return the messages with the labels of the pod that a kubelet puts on its containers."""
    for name in _LABELS_OF_POD:
        if name in sandbox.labels and name not in create.config.labels:
            create.config.labels[name] = sandbox.labels[name]
    return AskedCreate(sandbox, create)


def decode_creates(body: bytes) -> list[AskedCreate]:
    """Return the messages of a question. Raises ValueError."""
    if len(body) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES} bytes")
    plain = json.loads(body)
    if not isinstance(plain, list) or len(plain) > MOST_CONTAINERS:
        raise ValueError(f"expected a list of at most {MOST_CONTAINERS} containers")
    return [_decoded(pair) for pair in plain]


def _decoded(pair: object) -> AskedCreate:
    match pair:
        case [str() as sandbox, str() as create]:
            try:
                return _with_labels(
                    pb.PodSandboxConfig.FromString(base64.b64decode(sandbox, validate=True)),
                    pb.CreateContainerRequest.FromString(base64.b64decode(create, validate=True)),
                )
            except DecodeError as error:
                raise ValueError(str(error)) from error
    raise ValueError("expected pairs of a sandbox and a create, in base64")


async def fit(
    node: Node, reader: Reader, body: bytes, *, turn: Turn, is_abandoned: Callable[[], bool] = lambda: False
) -> FitView:
    """Return where these containers would land now, decided one after the other on a snapshot of this moment.

    Each decision waits for a ``turn``, which bounds the share of the event loop that all questions take together. The
    rest is not decided once the question is abandoned.
    """
    try:
        # In a turn too: to parse a body of a MiB holds up the loop as a decision does.
        async with turn():
            asked = decode_creates(body)
    except (ValueError, RecursionError) as error:
        return FitView(problem=admit(f"the question cannot be read: {error}"))
    if not node.coordinator.is_ready:
        return FitView(problem="the daemon does not decide yet: it still compares what it saved with the runtime")
    held, policy = node.context.ledger.allocations, node.context.ledger.policy
    found, refused_pods = [], dict[str, str]()
    for each in asked:
        async with turn():
            if is_abandoned():
                return FitView(problem="the question was abandoned")
            # Without pod resources: the kubelet has admitted none of these pods, and has chosen no device for them.
            answer, held = await _fit_one(node, replace(reader, pod_resources=None), each, (held, policy), refused_pods)
        found.append(answer)
    return FitView(tuple(found))


async def _fit_one(
    node: Node,
    reader: Reader,
    asked: AskedCreate,
    on: tuple[Allocations, Policy],
    refused_pods: dict[str, str],
) -> tuple[ContainerFit, Allocations]:
    """Return the answer for one container, and what is held with it."""
    held, policy = on
    pod = asked.sandbox.metadata
    if pod.uid not in refused_pods:
        sums = reader.read_pod(asked.sandbox)
        rejected = policy.refused_pod(held, sums) if sums is not None else None
        # Once for each pod, as at RunPodSandbox: the kubelet would create none of its containers.
        refused_pods[pod.uid] = rejected.reason.text if rejected is not None else ""
    read = await reader.read_create(asked.create, asked.sandbox)
    problems, request = tuple(map(str, read.problems)), read.request
    refusal = refused_pods[pod.uid] or read.refusal
    if problems and node.coordinator.config.strict_annotations:
        refusal = refusal or admit("; ".join(problems), SENTENCE_BYTES)
    name = str(request.full_name)
    if refusal:
        return ContainerFit(name, refusal, problems=problems), held
    decision = node.coordinator.decide(held, request, is_last_try=True)
    if isinstance(decision, Rejected):
        return ContainerFit(name, decision.reason.text, problems=problems), held
    after = held.with_grants(*decision.moved, decision.grant)
    return _placed(request, decision, problems, policy.pinnings(held), policy.pinnings(after)), after


def _placed(
    request: Request,
    decision: Placed,
    problems: tuple[str, ...],
    before: Mapping[ContainerKey, Pinning],
    after: Mapping[ContainerKey, Pinning],
) -> ContainerFit:
    grant, pinning = decision.grant, after[request.container]
    moved = {each.container for each in decision.moved}
    narrowed = sum(1 for key, old in before.items() if key not in moved and after.get(key, old) != old)
    return ContainerFit(
        str(request.full_name),
        kind=grant.kind.value,
        pool=grant.pool,
        cpus=str(pinning.cpus or ""),
        own_cpus=str(grant.owned),
        mems=str(pinning.mems or ""),
        devices=device_words(grant.devices) if grant.devices else (),
        reasons=tuple(reason.text for reason in decision.reasons),
        problems=problems,
        moves=tuple(_moves(decision.moved, before, after)),
        narrowed=narrowed,
    )


def _moves(
    moved: Sequence[Grant], before: Mapping[ContainerKey, Pinning], after: Mapping[ContainerKey, Pinning]
) -> Iterator[FitMove]:
    nothing = Pinning(None, None)
    for grant in moved:
        old, new = before.get(grant.container, nothing), after.get(grant.container, nothing)
        yield FitMove(
            str(grant.request.full_name),
            str(old.cpus or ""),
            str(new.cpus or ""),
            str(old.mems or ""),
            str(new.mems or ""),
        )
