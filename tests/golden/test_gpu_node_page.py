import re
from pathlib import Path

from cri_proxy.config.load import parse_config
from tests.golden.costs_page import answered
from tests.golden.gpu_node_page import PAGE


def test_the_page_shows_what_its_commands_answer(tmp_path: Path) -> None:
    """After a change that was meant: ``python -m tests.golden.gpu_node_page`` writes the answers."""
    page = PAGE.read_text()
    assert page.count("$ cri-proxy devices") == 2
    assert answered(page, tmp_path) == page


def test_the_configuration_of_the_page_is_valid() -> None:
    found = re.search(r"(?m)^    reservedResources:.*\n(?:    .*\n)*", PAGE.read_text())
    assert found is not None
    config = parse_config(re.sub(r"(?m)^    ", "", found[0]))
    assert (config.devices.scan, config.devices.health, config.visible_devices) == (
        True,
        "/run/gpu-health/report",
        "void",
    )
