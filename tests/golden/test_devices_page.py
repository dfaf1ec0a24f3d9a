import json
from pathlib import Path

import pytest

from cri_proxy.cli.main import run_command
from tests.golden.costs_page import ROOT, answered
from tests.golden.devices_page import PAGE

EXAMPLES = sorted(path.stem for path in (ROOT / "configs" / "devices").glob("*.yaml"))


def test_the_page_shows_what_its_commands_answer(tmp_path: Path) -> None:
    """After a change that was meant: ``python -m tests.golden.devices_page`` writes the answers."""
    page = PAGE.read_text()
    assert page.count("$ cri-proxy devices") == 11
    assert answered(page, tmp_path) == page


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_can_be_listed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["devices", "list", str(ROOT / "configs" / "devices" / f"{name}.yaml"), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)
