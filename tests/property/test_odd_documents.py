"""Commands that answer documents, on sound files with a few wounds: an answer or a sentence, never a traceback."""

import json
from pathlib import Path

import pytest
import yaml

from cri_proxy.cli.main import run_command
from tests.fuzz.mangle import mangled

CONFIGS = Path(__file__).parents[2] / "configs"
NUMBERS = range(200)
COSTS = ("second-example.yaml", "gpus.yaml")
HINTS = ("request.yaml", "dgx1.yaml")
MATRIX = b"""\
\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV12\tPXB\t0-3\t0\t\tN/A
GPU1\tNV12\t X \tSYS\t4-7\t1\t\tN/A
NIC0\tPXB\tSYS\t X \t\t\t\t

NIC Legend:

  NIC0: mlx5_0
"""


def seeds(folder: str, names: tuple[str, ...]) -> tuple[bytes, ...]:
    """Sound files of a folder, and each of them as a document among others."""
    files = [(CONFIGS / folder / name).read_bytes() for name in names]
    return (*files, b"%YAML 1.1\n---\n" + b"\n---\n".join([*files, b"", b"a: 1"]))


@pytest.mark.parametrize(
    ("words", "files"),
    [
        (
            ["select", "--request", "cpu=2,intel.com/fpga=1,intel.com/qat=1", "--method", "greedy"],
            seeds("costs", COSTS[:1]),
        ),
        (["select", "--budget-ms", "5", "--missing", "mirror"], seeds("costs", COSTS[1:])),
        (["hints", "merge", "--policy", "restricted"], seeds("hints", ("merge.yaml",))),
        (["hints", "generate", "--preferred-allocation-hints"], seeds("hints", HINTS)),
        (["costs", "derive", "--machine", "{packages: 2, cores: 4}", "--topo"], (MATRIX,)),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
@pytest.mark.parametrize("output", ["text", "json", "yaml"])
def test_a_damaged_file_is_answered_or_refused_in_a_sentence(
    words: list[str], files: tuple[bytes, ...], output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "it"
    for number in NUMBERS:
        file.write_bytes(mangled(files, number))
        status = run_command([*words, str(file), "-o", output])
        streams = capsys.readouterr()
        assert status in (0, 1), number
        # An answer is printed, or one line on standard error says why there is none.
        assert bool(streams.out) != bool(streams.err), number
        assert len(streams.err.splitlines()) == (not streams.out), number
        assert (streams.out + streams.err).replace("\n", "").isprintable(), number
        if streams.out and output == "json":
            json.loads(streams.out)
        elif streams.out and output == "yaml":
            yaml.safe_load(streams.out)
