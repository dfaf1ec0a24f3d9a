import re
import subprocess
from pathlib import Path

from cri_proxy.config.load import parse_config
from cri_proxy.inventory.health_source import HealthSource, health_of
from tests.golden.costs_page import ROOT, answered
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


def test_the_report_of_the_page_is_one(tmp_path: Path) -> None:
    """Its commands on a node on which nothing has made a directory, with what nvidia-smi prints."""
    found = re.search(r"(?m)^    mkdir -p .*\n(?:    .*\n)*", PAGE.read_text())
    assert found is not None
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\ncat {ROOT}/configs/devices/nvidia-smi.csv\n")
    tool.chmod(0o755)
    script = found[0].replace("/run/", f"{tmp_path}/run/")
    subprocess.run(["bash", "-ec", script], check=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    (report,) = (tmp_path / "run").rglob("report")
    assert [each.name for each in health_of(HealthSource(str(report))) if each.problem] == ["0000:20:00.0"]
