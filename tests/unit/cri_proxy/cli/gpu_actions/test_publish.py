import configparser
import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cri_proxy.cli.main import run_command
from cri_proxy.feature_file import FEATURE_DIRECTORY
from policies.devices.links import joined_labels
from tests.testbed.daemon import program

CONFIGS = Path(__file__).parents[5] / "configs" / "links"
KEP, SERVER, STORY = (str(CONFIGS / name) for name in ("kep-690.txt", "server.txt", "story.yaml"))
SERVER_WORD = "v1.0t3.n0x2n1x2.v12sx4v12"


def published(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert run_command(["gpu", "publish", *words, "-o", "json"]) == 0, capsys.readouterr().err
    found = json.loads(capsys.readouterr().out)
    return found if isinstance(found, list) else [found]


def test_the_word_alone_is_printed_for_a_shell_to_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["gpu", "publish", SERVER]) == 0
    assert capsys.readouterr().out == f"{SERVER_WORD}\n"


def test_annotation_and_labels_have_the_same_word(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = published(capsys, SERVER)
    assert (found["annotation"], found["value"]) == ("cri-proxy.io/gpu-links", SERVER_WORD)
    assert joined_labels(found["labels"]) == SERVER_WORD


def test_each_document_has_its_word(capsys: pytest.CaptureFixture[str]) -> None:
    linked, not_linked = published(capsys, STORY)
    assert "v2" in linked["value"]
    assert "v2" not in not_linked["value"]


def test_gpus_that_do_not_work_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = published(capsys, SERVER, "--available", "0,2,3")
    assert found["value"] == "v1.0a2t3.n0n1x2.sx2v12"
    assert run_command(["gpu", "publish", SERVER, "--available", "0,9"]) == 1
    assert "GPU9: available, but not in the matrix; name GPUs that it has" in capsys.readouterr().err


def test_the_feature_file_has_a_label_on_each_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "gpu-links"
    (found,) = published(capsys, KEP, "--feature-file", str(file))
    comment, *lines = file.read_text().splitlines()
    assert comment.startswith("# ")
    assert dict(line.split("=") for line in lines) == found["labels"]


def test_a_feature_file_is_of_one_node(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "gpu-links"
    assert run_command(["gpu", "publish", STORY, "--feature-file", str(file)]) == 1
    assert "2 documents; a feature file takes the one of its node" in capsys.readouterr().err
    assert not file.exists()


def test_a_matrix_that_cannot_be_read_leaves_the_feature_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file, text = tmp_path / "gpu-links", tmp_path / "topo.txt"
    published(capsys, KEP, "--feature-file", str(file))
    before = file.read_text()
    text.write_text("GPU0 GPU1\nGPU0 X NV2\n")
    assert run_command(["gpu", "publish", str(text), "--feature-file", str(file)]) == 1
    assert "GPU1: the matrix has a column and no row of this name" in capsys.readouterr().err
    assert file.read_text() == before


def with_tools(directory: Path, topology: str) -> dict[str, str]:
    """An environment in which nvidia-smi prints this, and cri-proxy is ours."""
    (directory / "topo.txt").write_text(topology)
    (directory / "nvidia-smi").write_text(f'#!/bin/sh\n[ "$*" = "topo -m" ] && cat {directory}/topo.txt\n')
    (directory / "cri-proxy").write_text(f'#!/bin/sh\nexec {shlex.join(program())} "$@"\n')
    for name in ("nvidia-smi", "cri-proxy"):
        (directory / name).chmod(0o755)
    return {"PATH": f"{directory}:/usr/bin:/bin"}


@pytest.mark.parametrize(("topology", "status"), [(Path(SERVER).read_text(), 0), ("driver not loaded\n", 1)])
def test_the_unit_publishes_what_the_driver_tells_or_fails_to_be_tried_again(
    tmp_path: Path, topology: str, status: int
) -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(CONFIGS.parents[1] / "packaging" / "kubernetes" / "gpu-links.service")
    start = unit["Service"]["ExecStart"]
    assert start.startswith("/bin/sh -c '") and start.endswith("'")
    assert unit["Service"]["Restart"] == "on-failure"
    script = start.removeprefix("/bin/sh -c '").removesuffix("'").replace(str(FEATURE_DIRECTORY), str(tmp_path))
    done = subprocess.run(
        ["/bin/sh", "-c", script], env=with_tools(tmp_path, topology), check=False, capture_output=True, text=True
    )
    assert done.returncode == status, done.stderr
    assert (tmp_path / "gpu-links").exists() is (status == 0)
    if status == 0:
        assert f"gpu-links.cri-proxy.io/0={SERVER_WORD}\n" in (tmp_path / "gpu-links").read_text()


def test_free_gpus_are_published_beside_the_links(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (found,) = published(capsys, SERVER, "--free", "0,2-3")
    assert found["free"] == {"annotation": "cri-proxy.io/gpu-free", "value": "0.2-3"}
    assert found["labels"]["gpu-links.cri-proxy.io/free"] == "0.2-3"
    assert run_command(["gpu", "publish", SERVER, "--free", "0", "--feature-file", str(tmp_path / "links")]) == 0
    assert "gpu-links.cri-proxy.io/free=0\n" in (tmp_path / "links").read_text()
    assert run_command(["gpu", "publish", SERVER, "--free", "some"]) == 2
    assert "--free some: expected a list as 0-3,5, or daemon" in capsys.readouterr().err


def test_a_daemon_that_does_not_answer_leaves_the_file_as_it_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["--free", "daemon", "--admin", f"unix://{tmp_path}/admin.sock", "--feature-file", str(tmp_path / "links")]
    assert run_command(["gpu", "publish", SERVER, *words]) != 0
    assert not (tmp_path / "links").exists()
