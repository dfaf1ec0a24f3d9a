import io
import json
from pathlib import Path
from typing import Any

import pytest

from cri_proxy.cli.main import run_command

CONFIGS = Path(__file__).parents[5] / "configs" / "devices"


def answer(capsys: pytest.CaptureFixture[str], name: str, status: int = 0) -> Any:  # noqa: ANN401
    assert run_command(["devices", "allocate", str(CONFIGS / f"{name}.yaml"), "-o", "json"]) == status
    return json.loads(capsys.readouterr().out)


def given(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_four_gpus_bring_four_nics(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "joint")
    assert found["gpu"] == [{"minor": i, "amount": 100, "resources": {"nvidia.com/gpu": 1}} for i in range(4)]
    assert found["rdma"] == [{"minor": i, "amount": 1} for i in range(4)]


def test_a_refusal_is_an_answer_with_exit_status_1_and_others_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    possible, impossible = answer(capsys, "same-pcie", status=1)
    assert [len(possible["gpu"]), len(possible["rdma"])] == [4, 4]
    assert list(impossible) == ["rejected"]
    assert impossible["rejected"].startswith(
        "device-joint-allocate with SamePCIe: no set of 4 GPUs has an rdma device on every"
    )


def test_an_exclusive_vf_names_its_address_and_its_policy(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "exclusive")
    assert found["rdma"][0] == {"minor": 4, "amount": 1, "vf": "0000:51:00.1", "exclusive": "PCIeLevel"}


def test_a_resource_that_is_of_devices_elsewhere_is_left_out_with_a_warning(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {
        "nvidia.com/gpu": 1,
        "huawei.com/npu-core": 4,
        "gpu.intel.com/i915": 1,
        "metax-tech.com/sgpu": 1,
        "memory": "1Gi",
        "x.io/kvm": 1,
    }
    given(monkeypatch, json.dumps({"inventory": {"gpu": [{"minor": 0}]}, "requests": asked}))
    assert run_command(["devices", "allocate", "-", "-o", "json"]) == 0
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    assert [text.partition(":")[2].partition(" is")[0] for text in warnings] == [
        " huawei.com/npu-core",
        " gpu.intel.com/i915",
        " metax-tech.com/sgpu",
    ]


def test_an_answer_may_stand_under_in_use(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    document = {"inventory": str(CONFIGS / "eight-switches.yaml"), "requests": {"koordinator.sh/gpu-memory-ratio": 60}}
    minors = []
    for _ in range(3):
        given(monkeypatch, json.dumps(document))
        assert run_command(["devices", "allocate", "-", "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        minors.append(found["gpu"][0]["minor"])
        document["in_use"] = [*document.get("in_use", ()), found]
    assert minors == [0, 1, 2]


@pytest.mark.parametrize(
    ("requests", "annotations", "said"),
    [
        ("{nvidia.com/gpu: 3}", "{}", "gpu: 3 asked for, 1 can be given"),
        ("{koordinator.sh/gpu-core: 30}", "{}", "koordinator.sh/gpu-core alone asks for no memory"),
        (
            "{nvidia.com/gpu: 1}",
            "{scheduling.koordinator.sh/device-joint-allocate: '{'}",
            "scheduling.koordinator.sh/device-joint-allocate: not JSON",
        ),
    ],
)
def test_what_cannot_be_had_or_understood_is_rejected(
    requests: str, annotations: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, f"inventory: {{gpu: [{{minor: 0}}]}}\nrequests: {requests}\nannotations: {annotations}")
    assert run_command(["devices", "allocate", "-"]) == 1
    assert capsys.readouterr().out.startswith(f"rejected: {said}")


def test_a_warning_stands_below_the_devices(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    joint = '{deviceTypes: [gpu], requiredScope: "PCIe"}'
    annotations = f"{{scheduling.koordinator.sh/device-joint-allocate: {joint}}}"
    text = f"inventory: {{gpu: [{{minor: 0}}]}}\nrequests: {{nvidia.com/gpu: 1}}\nannotations: {annotations}"
    given(monkeypatch, text)
    assert run_command(["devices", "allocate", "-"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("gpu 0  whole  NUMA node unknown, PCIe unknown\n\nwarning: ")
    given(monkeypatch, text)
    run_command(["devices", "allocate", "-", "-o", "json"])
    assert len(json.loads(capsys.readouterr().out)["warnings"]) == 1


def test_a_document_that_cannot_be_read_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, "requests: {nvidia.com/gpu: 1}")
    assert run_command(["devices", "allocate", "-"]) == 1
    assert capsys.readouterr().err.startswith("cri-proxy devices: -:1: the document: inventory is missing")


def test_nothing_asked_for_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, "inventory: {gpu: [{minor: 0}]}\nrequests: {nvidia.com/gpu: 0}")
    assert run_command(["devices", "allocate", "-"]) == 0
    assert capsys.readouterr().out == "nothing is asked for\n"
