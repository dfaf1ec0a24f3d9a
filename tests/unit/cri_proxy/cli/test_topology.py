import json
import re
from pathlib import Path

import pytest

from cri_proxy.cli.main import run_command

SPEC = "{packages: 2, cores: 2, threads: 2, memory: 2Gi}"


def run(*words: str, output: str = "text") -> int:
    return run_command(["topology", *words, "-o", output])


def test_it_prints_the_tree(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--machine", SPEC) == 0
    assert "package 1 = NUMA node 1 = L3 #1  CPUs 4-7  2 GiB DRAM" in capsys.readouterr().out


def test_it_prints_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--machine", SPEC, output="json") == 0
    assert json.loads(capsys.readouterr().out)["packages"][1] == {"id": 1, "cpus": "4-7"}


def test_it_draws_the_machine(tmp_path: Path) -> None:
    assert run("--machine", SPEC, "--svg", f"{tmp_path}/m.svg") == 0
    assert (tmp_path / "m.svg").read_text().startswith("<svg")


@pytest.mark.parametrize("words", [("--machine", "/nowhere"), ("--machine", SPEC, "--svg", "/nowhere/m.svg")])
def test_what_cannot_be_done_is_said_on_standard_error(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert run(*words) == 1
    assert "/nowhere" in capsys.readouterr().err


def test_a_picture_that_cannot_be_written_is_one_plain_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--machine", SPEC, "--svg", "/nowhere/m.svg") == 1
    problem = "/nowhere/m.svg: the picture cannot be written: No such file or directory"
    assert capsys.readouterr().err == f"cri-proxy topology: {problem}\n"


def test_the_machine_is_the_host_unless_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    assert "online 0" in capsys.readouterr().out


def test_the_reference_documents_every_key_of_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--machine", "{cores: 2, memory: 1Gi, pci: [{address: '01:00.0', node: 0}]}", output="json") == 0
    value = json.loads(capsys.readouterr().out)
    parts = [key for items in value.values() if isinstance(items, list) for item in items[:1] for key in item]
    page = Path(__file__).parents[4] / "docs" / "reference" / "topology.md"
    documented = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| `.*$", page.read_text(), re.MULTILINE))))
    assert {*value, *parts} == documented


def test_the_configurations_word_on_memory_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.yaml").write_text("memoryKinds: {1: hbm}")
    assert run("--machine", SPEC, "--config", f"{tmp_path}/config.yaml", output="json") == 0
    assert [n["kind"] for n in json.loads(capsys.readouterr().out)["nodes"]] == ["dram", "hbm"]


def test_a_configuration_that_is_not_taken_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.yaml").write_text("memoryKinds: {1: ram}")
    assert run("--machine", SPEC, "--config", f"{tmp_path}/config.yaml") == 1
    assert "config.yaml:1: memoryKinds.1: expected dram, pmem, hbm" in capsys.readouterr().err
