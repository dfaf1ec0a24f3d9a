import io
import json
from pathlib import Path

import pytest

from cri_proxy.cli.main import run_command

CONFIGS = Path(__file__).parents[5] / "configs" / "devices"


def test_both_types_have_the_sets_of_the_whole_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["devices", "hints", str(CONFIGS / "joint.yaml"), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    sets = [([0], True), ([1], True), ([0, 1], False)]
    assert found == {kind: [{"nodes": n, "preferred": p} for n, p in sets] for kind in ("gpu", "rdma")}


def test_the_answer_is_a_provider_of_hints_merge(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_command(["devices", "hints", str(CONFIGS / "few-nics.yaml"), "-o", "json"])
    document = {"nodes": 2, "providers": [json.loads(capsys.readouterr().out)]}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(document).encode())))
    assert run_command(["hints", "merge", "-", "--policy", "single-numa-node", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["affinity"] == [0]


def test_refusals_are_those_of_allocate(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["devices", "hints", str(CONFIGS / "same-pcie.yaml")]) == 1
    assert "\n\nrejected: device-joint-allocate with SamePCIe: no set of" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("requests", "shown", "status"),
    [
        ("{nvidia.com/gpu: 1}", "gpu: no preference (none of its devices names a NUMA node)\n", 0),
        ("{nvidia.com/gpu: 0}", "nothing is asked for\n", 0),
        ("{koordinator.sh/gpu: 150}", "rejected: koordinator.sh/gpu: 150 is neither", 1),
    ],
)
def test_other_answers_are_said_in_words(
    requests: str, shown: str, status: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"{{inventory: {{gpu: [{{minor: 0}}]}}, requests: {requests}}}"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run_command(["devices", "hints", "-"]) == status
    assert capsys.readouterr().out.startswith(shown)
