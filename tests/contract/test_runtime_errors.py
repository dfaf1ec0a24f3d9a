"""The embedded runtime refuses what containerd refuses, with the same code and the same words."""

import asyncio
import json
from pathlib import Path

import pytest

from cri_proxy.runtime.embedded.state import DEFAULT_IMAGE
from tests.contract.probes import PROBES, ask_all
from tests.fakes.machines import small_machine
from tests.fakes.scripted_runtime import ScriptedRuntime

RECORDED = json.loads((Path(__file__).parent / "recorded" / "containerd-1.6.json").read_text())["answers"]


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, object]]:
    return asyncio.run(ask_all(ScriptedRuntime(small_machine(), modern=False), DEFAULT_IMAGE))


@pytest.mark.parametrize("probe", [p.name for p in PROBES])
def test_the_embedded_runtime_answers_as_containerd(probe: str, answers: dict[str, dict[str, object]]) -> None:
    assert answers[probe] == RECORDED[probe]


def test_every_recorded_answer_has_its_probe() -> None:
    assert set(RECORDED) == {p.name for p in PROBES}
