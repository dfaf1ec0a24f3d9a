"""Random calls through both relays, one by one: client and runtime see the same, the interceptor is told the same."""

import random
from dataclasses import replace

from tests.fakes.grpc_runtime import Script, Seen
from tests.relay.clients import Answer
from tests.relay.stage import CLIENTS, Place, Stage, until

METHODS = (
    "/runtime.v1.RuntimeService/Version",
    "/runtime.v1.RuntimeService/GetContainerEvents",
    "/runtime.v1.RuntimeService/HoldThis",
    "/runtime.v1.ImageService/HoldThat",
    "/not.yet.Invented/Method",
    "/runtime.v1alpha2.RuntimeServiceOld/Version",
)
CALLS = 80


def random_call(choose: random.Random) -> tuple[str, bytes, Script | None, tuple[tuple[str, str | bytes], ...]]:
    """A method, a message, what the runtime shall do (None: echo), metadata."""
    method = choose.choice(METHODS)
    message = choose.choice([b"", b"refuse it", b"rewrite", b"raise.. it"]) + choose.randbytes(
        choose.choice([0, 9, 70_000])
    )
    message = b"refuse it" if message.startswith(b"refuse") else message
    metadata = (("plain", choose.choice(["a", "b c", "%"])), ("blob-bin", choose.randbytes(5)))
    if choose.uniform(0, 1) < 0.3:
        return method, message, None, metadata
    code = choose.choice([0, 0, 0, 2, 3, 5, 9, 13])
    streams = "Hold" not in method and "Version" not in method
    script = Script(
        replies=choose.choice([0, 1, 5]) if streams else int(code == 0),
        reply_bytes=choose.choice([0, 20, 200_000]),
        code=code,
        message=choose.choice(["", "né 100%", "x" * 300]) if code else "",
        initial=choose.choice([(), (("first", "1"),)]),
        trailing=choose.choice([(), (("last-bin", "00ff"), ("plain", "x"))]),
        gzip=choose.uniform(0, 1) < 0.2,
    )
    return method, message, script, metadata


def at_the_runtime(seen: Seen) -> tuple[object, ...]:
    """What of a call does not name its sender. A refused stream may or may not be seen: only messages count."""
    metadata = sorted(
        (pair for pair in seen.metadata if pair[0] not in ("user-agent", "grpc-accept-encoding")), key=str
    )
    return seen.method, tuple(metadata), tuple(seen.requests), seen.seconds_left is None


async def converse(place: Place, seed: int) -> tuple[list[Answer], list[tuple[object, ...]], list[tuple[object, ...]]]:
    choose = random.Random(seed)
    answers = []
    async with place.staged() as set_up:
        for _ in range(CALLS):
            method, message, script, metadata = random_call(choose)
            answers.append(await unary_or_stream(set_up, method, message, script, metadata))
        await until(lambda: all(seen.ended for seen in set_up.runtime.calls))
        with_messages = [at_the_runtime(seen) for seen in set_up.runtime.calls if seen.requests]
        told: list[tuple[object, ...]] = [
            (call.method, call.message, outcome) for call, outcome in set_up.interceptor.outcomes
        ]
    return answers, with_messages, told


async def unary_or_stream(
    set_up: Stage, method: str, message: bytes, script: Script | None, metadata: tuple[tuple[str, str | bytes], ...]
) -> Answer:
    """A refused service answers before the message comes, which grpcio's streams cannot take: no message for that."""
    requests = () if "Old" in method else (message,)
    answer = await set_up.call(method, *requests, script=script, metadata=metadata)
    if "Old" in method:
        return Answer(answer.code, "")
    # What a runtime says before it has the request goes on; the gRPC relay does not call it before the verdict.
    return replace(answer, initial=()) if message == b"refuse it" and "Hold" in method else answer


@CLIENTS
async def test_both_relays_carry_random_calls_alike(client: str) -> None:
    splice, grpc = [await converse(Place(via, client), seed=20_251_121) for via in ("splice", "grpc")]
    for ours, theirs in zip(splice, grpc, strict=True):
        assert ours == theirs
    assert {answer.code for answer in splice[0]} >= {0, 2, 5, 9, 12}
