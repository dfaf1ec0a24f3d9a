"""A live containerd answers odd calls as the recorded one did, and through the proxy they read the same."""

import json
import re
from pathlib import Path

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import IMAGE
from cri_proxy.foreign_text import admit
from tests.contract.probes import ask_all
from tests.e2e.stage import Stage

RECORDED = Path(__file__).parent.parent / "contract" / "recorded"

# A kubelet's cpuset never reaches the runtime, so what it would have refused succeeds with the set that we put there;
# and the container that could not start then runs, which "Start again" meets.
SUCCEED = {
    "Update running, malformed",
    "Update running, no such CPU",
    "Update running, no such node",
    "Start malformed",
}
DIFFER = {*SUCCEED, "Start again"}


async def recorded(stage: Stage) -> dict[str, object]:
    """The answers of the containerd of this minor version. Another version has none: record it first."""
    version = await stage.direct.call("Version", pb.VersionRequest(), pb.VersionResponse)
    minor = re.match(r"v?(\d+\.\d+)", version.runtime_version)
    file = RECORDED / f"containerd-{minor[1] if minor else '?'}.json"
    if not file.exists():
        pytest.skip(f"no recording of {version.runtime_name} {version.runtime_version} in {RECORDED}")
    answers = json.loads(file.read_text())["answers"]
    # The client that asks cleans what it reads of a runtime.
    return {name: {**answer, "message": admit(answer["message"])} for name, answer in answers.items()}


def parent(stage: Stage) -> str:
    return f"{stage.containerd.cgroup_root}/probes"


async def test_a_live_containerd_answers_as_the_recorded_one(stage: Stage) -> None:
    assert await ask_all(stage.to_runtime, IMAGE, parent(stage)) == await recorded(stage)


async def test_through_the_proxy_the_answers_are_the_same(stage: Stage) -> None:
    answers, expected = await ask_all(stage.to_proxy, IMAGE, parent(stage)), await recorded(stage)
    differing = {name for name in expected if answers[name] != expected[name]}
    assert differing == DIFFER, {name: (answers[name], expected[name]) for name in differing}
    assert [answers[name] for name in sorted(SUCCEED)] == [{"code": 0, "message": ""}] * len(SUCCEED)
