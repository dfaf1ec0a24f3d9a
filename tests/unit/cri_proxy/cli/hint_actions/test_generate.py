"""``hints generate``: the answer is a provider of ``hints merge``, and the text says why there is no hint."""

import json
from pathlib import Path

import pytest

from cri_proxy.cli.main import run_command

TOPOLOGY = 'topology: {nodes: {0: "0-2,6-8", 1: "3-5,9-11"}, sockets: {0: [0], 1: [1]}}\n'
DGX1 = """\
topology: {nodes: {0: 0-3, 1: 4-7}}
devices:
  nvidia.com/gpu:
    request: 2
    devices: {0: [0], 1: [0], 2: [0], 3: [0], 4: [1], 5: [1], 6: [1], 7: [1]}
    used: [3, 4]
    preferred: [[0, 3], [0, 4], [1, 2], [1, 5], [2, 3], [4, 7], [5, 6], [6, 7]]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "request.yaml"


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run_command(["hints", "generate", *words]) == 0
    return capsys.readouterr().out


def answer(capsys: pytest.CaptureFixture[str], file: Path, text: str) -> object:
    file.write_text(text)
    return json.loads(printed(capsys, str(file), "-o", "json"))


def test_the_answer_has_hints_by_resource(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    text = f"""{TOPOLOGY}
cpu: {{request: 2, free: "2-11", allocated: "0,6", reusable: "", options: [align-by-socket]}}
devices:
  example.com/gpu: {{request: 2, devices: {{d1: [0], d2: [1]}}, used: [d1], allocated: [], reusable: []}}
  example.com/key: {{request: 1, devices: {{k1: [], k2: null}}}}
"""
    assert answer(capsys, file, text) == {
        "cpu": [{"nodes": [0], "preferred": True}, {"nodes": [0, 1], "preferred": False}],
        "example.com/gpu": [],
        "example.com/key": None,
    }


def test_several_documents_are_a_list_and_a_wrong_one_has_its_error(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    file.write_text(f"{TOPOLOGY}cpu: {{request: 0}}\n---\n{TOPOLOGY}cpu: {{request: -1}}\n")
    assert run_command(["hints", "generate", str(file), "-o", "json"]) == 1
    first, second = json.loads(capsys.readouterr().out)
    assert first == {"cpu": None}
    assert second["error"].endswith(":5: cpu.request: expected a quantity like 750m or 2, got '-1'")


def test_a_machine_says_what_its_nodes_have(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    text = """
machine: {packages: 2, cores: 2, memory: 2Gi}
cpu: {request: 3, free: 0-3}
memory: {request: {memory: 3Gi}}
"""
    both = [{"nodes": [0, 1], "preferred": True}]
    assert answer(capsys, file, text) == {"cpu": both, "memory": both}


def test_preferred_sets_count_where_they_are_asked_for(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    """GPUs 3 and 4 are in use: (1, 2) is left on node 0, (5, 6) and (6, 7) on node 1, (1, 5) on both."""
    file.write_text(DGX1)
    assert "preferred  {0} {1}\n  other      {0-1}" in printed(capsys, str(file))
    assert "preferred  {0} {1} {0-1}\n" in printed(capsys, str(file), "--preferred-allocation-hints")
    file.write_text(f"{DGX1}options: {{preferred-allocation-hints: true}}\n")
    assert "preferred  {0} {1} {0-1}\n" in printed(capsys, str(file))
    assert "other      {0-1}\n" in printed(capsys, str(file), "--no-preferred-allocation-hints")


def test_preferred_sets_that_are_all_in_use_are_warned_about(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text(DGX1.replace("[3, 4]", "[1, 3, 4, 6]"))
    text = printed(capsys, str(file), "--preferred-allocation-hints")
    assert "no set in preferred: can be had; restricted and single-numa-node refuse such a container" in text
    assert "\n  preferred" not in text


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("cpu: {request: 1.5}", "cpu: no whole CPUs: no preference (it gets no CPUs of its own)"),
        ("cpu: {request: 12, free: 0-3}", "cpu: 12 CPUs: cannot be satisfied (free or reusable: 4)"),
        ("cpu: {request: 2, allocated: '3'}", "cpu: 2 CPUs: cannot be satisfied (the container has 1)"),
        (
            "memory: {request: {memory: 2Gi}, nodes: {0: {memory: 1Gi}}}",
            "memory: 2Gi: no preference (no set of nodes has room: the kubelet refuses",
        ),
        (
            "memory: {request: {memory: 2Gi}, nodes: {0: {}}, allocated: {nodes: [0], amounts: {memory: 1Gi}}}",
            "memory: 2Gi: no preference (the container has a different amount",
        ),
        ("memory: {request: {}, nodes: {0: {memory: 1Gi}}}", "memory: none: no preference (no memory is asked for)"),
        ("devices: {a/b: {request: 2, devices: {x: [0]}}}", "a/b: 2 devices: cannot be satisfied (available: 1)"),
        (
            "devices: {a/b: {request: 1, devices: {x: [0], y: [0]}, allocated: [x, y]}}",
            "a/b: 1 device: cannot be satisfied (the container has 2)",
        ),
        (
            "devices: {a/b: {request: 2, devices: {x: [0], y: []}}}",
            "a/b: 2 devices: cannot be satisfied (a device without a node of this machine counts in no set)",
        ),
        (
            "devices: {a/b: {request: 1, devices: {x: []}}}",
            "a/b: 1 device: no preference (none of its devices names a NUMA node)",
        ),
        ("options: {}", "nothing is asked for: give cpu:, memory: or devices:"),
    ],
)
def test_the_text_says_why_there_is_no_hint(
    request_text: str, expected: str, capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    file.write_text(f"{TOPOLOGY}{request_text}\n")
    assert printed(capsys, str(file)).startswith(expected)


def test_what_a_container_holds_needs_nothing_free(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text(f"{TOPOLOGY}devices: {{a/b: {{request: 1, devices: {{x: [0]}}, used: [x], allocated: [x]}}}}\n")
    assert printed(capsys, str(file)) == "a/b: 1 device: 1 hint\n  preferred  {0}\n"


def test_long_lists_are_cut_in_the_text(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text("machine: {packages: 2, nodes: 4, cores: 4}\ncpu: {request: 5}\n")
    text = printed(capsys, str(file))
    assert "cpu: 5 CPUs: 247 hints\n" in text
    assert "and 12 more (-o json lists them)" in text
    assert max(map(len, text.splitlines())) <= 80


def test_of_more_than_16_nodes_those_with_cpus_count(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    """34 nodes, as where the memory of GPUs is nodes of its own."""
    gpus = "{memory: 12Gi, near: {0: 80}}, " * 32
    text = f"""
machine: {{packages: 2, cores: 4, memory: 4Gi, memory_nodes: [{gpus}]}}
cpu: {{request: 2, free: "4-7"}}
memory: {{request: {{memory: 3Gi}}, groups: [[0, 5]]}}
devices: {{a/b: {{request: 1, devices: {{x: [1, 30], y: [2]}}}}, c/d: {{request: 1, devices: {{z: [7]}}}}}}
"""
    second = [{"nodes": [1], "preferred": True}]
    assert answer(capsys, file, text) == {
        "cpu": [*second, {"nodes": [0, 1], "preferred": False}],
        "memory": second,
        "a/b": second,
        "c/d": None,
    }


def test_more_than_16_nodes_with_cpus_are_an_error(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text("machine: {packages: 17, cores: 4}\ncpu: {request: 5}\n")
    assert run_command(["hints", "generate", str(file)]) == 1
    assert "hints list the sets of at most 16 NUMA nodes, and there are 17" in capsys.readouterr().err


def test_the_answer_is_a_provider_of_hints_merge(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    """Five CPUs and 5Gi take two nodes of four CPUs and 4Gi; the device is on the second."""
    offered = answer(
        capsys,
        file,
        """
machine: {packages: 2, cores: 4, memory: 4Gi}
cpu: {request: 5}
memory: {request: {memory: 5Gi}, groups: [[0, 1]]}
devices: {example.com/gpu: {request: 1, devices: {a: [0], b: [1]}, used: [a]}}
""",
    )
    file.write_text(json.dumps({"nodes": 2, "providers": [offered]}))
    assert run_command(["hints", "merge", str(file), "--policy", "best-effort", "-o", "json"]) == 0
    merged = json.loads(capsys.readouterr().out)
    assert (merged["affinity"], merged["preferred"]) == ([0, 1], False)
