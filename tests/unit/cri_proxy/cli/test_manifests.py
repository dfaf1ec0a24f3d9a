import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from cri_proxy.cli.main import run_command
from cri_proxy.cli.manifests import is_manifest
from tests.unit.cri_proxy.simulate.test_capture import STORY, captured

MACHINE = "{packages: 2, cores: 4, memory: 8Gi}"
POD = (
    "kind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, resources: {limits: {cpu: CPUS, memory: 1Gi}}}]}\n"
)
SCENARIO = (
    "machine: {cores: 2}\nsteps:\n- create: {pod: a, count: 2, containers: [{name: c, cpu: '1'}], qos: guaranteed}\n"
)


@dataclass(frozen=True, slots=True)
class Simulate:
    """Runs the command on a text; its exit status, standard output and standard error."""

    capsys: pytest.CaptureFixture[str]
    directory: Path

    def __call__(self, text: str, *argv: str, machine: str = MACHINE) -> tuple[int, str, str]:
        (self.directory / "m.yaml").write_text(text)
        options = ("--machine", machine) if machine else ()
        status = run_command(
            ["simulate", *options, *argv, *(() if "--" in argv else ("--",)), str(self.directory / "m.yaml")]
        )
        streams = self.capsys.readouterr()
        return status, streams.out, streams.err


@pytest.fixture
def simulate(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Simulate:
    return Simulate(capsys, tmp_path)


@pytest.mark.parametrize(("cpus", "status"), [("4", 0), ("9", 1)])
def test_a_refused_pod_is_a_no(simulate: Simulate, cpus: str, status: int) -> None:
    found, out, _ = simulate(POD.replace("CPUS", cpus), "-o", "json")
    assert (found, json.loads(out)["placed"]) == (status, 1 - status)


def test_a_span_is_a_no_where_that_is_wished(simulate: Simulate) -> None:
    assert simulate(POD.replace("CPUS", "6"))[0] == 0
    assert simulate(POD.replace("CPUS", "6"), "--fail-on-span")[0] == 1
    assert simulate(POD.replace("CPUS", "4500m"), "--fail-on-span")[0] == 0  # shares others, beside its own


def test_two_machines_are_compared_and_the_page_is_written(simulate: Simulate, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    status, out, _ = simulate(POD.replace("CPUS", "6"), "--machine", "{cores: 8, memory: 8Gi}", "--html", str(page))
    assert status == 0
    assert out.startswith("differs")
    assert page.read_text().startswith("<!doctype html>")


def test_a_page_that_cannot_be_written_is_no_picture(simulate: Simulate) -> None:
    status, _, err = simulate(POD.replace("CPUS", "1"), "--html", "/nowhere/plan.html")
    assert (status, "/nowhere/plan.html: the page cannot be written: No such file" in err) == (1, True)


def test_a_configuration_is_read_as_the_daemon_reads_it(simulate: Simulate, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("reservedResources: {cpu: '2'}\n")
    assert simulate(POD.replace("CPUS", "6"), "--config", str(config))[0] == 0
    assert simulate(POD.replace("CPUS", "7"), "--config", str(config))[0] == 1
    config.write_text("reservedResource: {cpu: '2'}\n")
    assert "did you mean" in simulate(POD.replace("CPUS", "1"), "--config", str(config))[2]


CONFIG_MAP = """\
kind: ConfigMap
metadata: {name: cri-resmgr-config.NAME}
data:
  policy: |
    ReservedResources: {cpu: "CPUS"}
"""
LAYERS = "---\n".join(
    CONFIG_MAP.replace("NAME", name).replace("CPUS", cpus) for name, cpus in (("node.a", "1"), ("default", "2"))
)


def test_of_several_config_maps_in_a_file_the_one_that_applies_counts(simulate: Simulate, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(LAYERS)
    assert [simulate(POD.replace("CPUS", cpus), "--config", str(config))[0] for cpus in "67"] == [0, 1]


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (("--nodes", "0"), "--nodes goes from 1"),
        (("--orders", "0"), "--orders from 1"),
        (("--machine", "{}", "--machine", "{}"), "two machines or two configurations"),
    ],
)
def test_what_cannot_be_planned_is_wrong_usage(simulate: Simulate, argv: tuple[str, ...], problem: str) -> None:
    status, _, err = simulate(POD.replace("CPUS", "1"), *argv)
    assert status == 2
    assert problem in err


def test_scenarios_and_manifests_are_told_apart(
    simulate: Simulate, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    (tmp_path / "p.yaml").write_text(POD)
    status = run_command(["simulate", str(tmp_path / "s.yaml"), str(tmp_path)])
    assert status == 2
    assert "give scenarios and manifests apart" in capsys.readouterr().err
    assert simulate(SCENARIO)[0] == 2
    status, out, _ = simulate(SCENARIO, "-o", "json", machine="")
    assert (status, [step["ok"] for step in json.loads(out)["steps"]]) == (0, [True, True])
    wide = SCENARIO.replace("count: 2, ", "").replace("'1'", "'2'").replace("cores: 2", "nodes: 2, cores: 1")
    assert [simulate(wide, *options, machine="")[0] for options in ((), ("--fail-on-span",))] == [0, 1]
    assert simulate(SCENARIO.replace("count: 2", "count: 3"), machine="")[0] == 0
    assert simulate(SCENARIO.replace("count: 2", "count: 3"), "--fail-on-refusal", machine="")[0] == 1


def test_a_file_that_cannot_be_read_is_named_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.yaml").write_text(POD)
    (tmp_path / "s.yaml").write_text(SCENARIO)
    assert run_command(["simulate", str(tmp_path), str(tmp_path / "missing.yaml")]) == 1
    assert "missing.yaml: cannot be read: " in capsys.readouterr().err


def test_files_without_documents_are_passed_over(simulate: Simulate, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "a.yaml").write_text("")
    (tmp_path / "empty" / "b.yaml").write_text("# Source: chart/templates/none.yaml\n\n---\n  # none\n...\n")
    assert simulate(POD.replace("CPUS", "1"), "--", str(tmp_path / "empty"))[0] == 0
    assert simulate(SCENARIO, "--", str(tmp_path / "empty"), machine="")[0] == 0


@pytest.mark.parametrize(
    "option",
    [
        ("--strategy", "pack"),
        ("--namespace", "x"),
        ("--random", "0"),
        ("--orders", "2"),
        ("--nodes", "2"),
        ("--html", "x"),
    ],
)
def test_options_of_plans_are_wrong_usage_with_scenarios(simulate: Simulate, option: tuple[str, str]) -> None:
    status, _, err = simulate(SCENARIO, *option, machine="")
    assert (status, f"{option[0]}: without effect on scenarios" in err) == (2, True)


def test_options_that_do_not_apply_to_manifests_or_captured_nodes_are_wrong_usage(
    simulate: Simulate, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = simulate(POD.replace("CPUS", "1"), "--fail-on-refusal")
    assert (status, "--fail-on-refusal: without effect on manifests" in err) == (2, True)
    fleet = ["simulate", "--nodes", str(tmp_path), "--config", "c.yaml", "--machine", "host", "--fail-on-span"]
    assert run_command(fleet) == 2
    assert "--machine, --fail-on-span: without effect on captured nodes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ('{\n  "apiVersion": "v1",\n  "kind": "List"\n}', True),
        ("# Source: chart\n---\nkind: Pod\n", True),
        ("{kind: Pod}", True),
        ("machine:\n  memory_nodes:\n  - memory: 1Gi\n    kind: pmem\nsteps: []\n", False),
        ("", False),
    ],
)
def test_a_manifest_has_a_kind(text: str, is_one: bool) -> None:
    assert is_manifest(text) is is_one


async def test_a_directory_of_captured_nodes_is_put_under_a_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await captured(tmp_path / "a.tar.xz")
    config = tmp_path / "new.yaml"
    config.write_text("reservedResources: {cpu: '1'}\n")
    loop, command = asyncio.get_running_loop(), ["simulate", "--nodes", str(tmp_path), "--config", str(config)]
    assert await loop.run_in_executor(None, run_command, command) == 0
    assert capsys.readouterr().out == "1 node: 0 change, 0 cannot take it\n"
    config.write_text("reservedResources: {cpu: '8'}\n")
    assert await loop.run_in_executor(None, run_command, command) == 1
    assert "a: no: " in capsys.readouterr().out
    config.write_text(LAYERS)
    assert await loop.run_in_executor(None, run_command, command) == 0


@pytest.mark.parametrize(
    ("argv", "problem"),
    [((), "give FILE, or a directory"), (("--nodes", "."), "give one --config"), (("--nodes", "x"), "give FILE")],
)
def test_without_files_a_directory_and_a_configuration_are_needed(
    capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], problem: str
) -> None:
    assert run_command(["simulate", *argv]) == 2
    assert problem in capsys.readouterr().err


WORKERS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: worker}
spec:
  replicas: 3
  template:
    spec:
      containers:
      - name: c
        resources: {requests: {cpu: "3", memory: 64Mi}, limits: {cpu: "3", memory: 64Mi}}
"""


async def test_pods_arrive_beside_what_stands_on_captured_nodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a machine of 8 CPUs, of which 1 is reserved, a has 4 with owners and b none."""
    await captured(tmp_path / "a.tar.xz")
    await captured(tmp_path / "b.tar.xz", STORY.replace(", count: 2, qos: guaranteed", "").replace('cpu: "2", ', ""))
    file = tmp_path / "worker.yaml"
    file.write_text(WORKERS)
    loop, command = asyncio.get_running_loop(), ["simulate", str(file), "--nodes", str(tmp_path)]
    assert await loop.run_in_executor(None, run_command, [*command, "-o", "json"]) == 1
    plan = json.loads(capsys.readouterr().out)
    assert plan["machine"] == "2 captured nodes of 16 CPUs with what stands on them"
    a, b = plan["nodes"]
    assert (a["name"], b["name"]) == ("a", "b")
    assert [len(node["containers"]) for node in (a, b)] == [0, 2]
    assert sorted(a["standing"]) == ["default/web-0/c", "default/web-1/c"]
    assert (a["requested_mcpu"], a["pods"], b["standing"]) == (4100, 3, {})
    assert plan["refused"][0]["reason"] == "0/2 nodes are available: 2 Insufficient cpu"
    assert await loop.run_in_executor(None, run_command, command) == 1
    assert "# owned before" in capsys.readouterr().out


async def test_sharers_on_a_captured_node_that_make_room_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, _, _ = STORY.partition("- create")
    story = f"{head}- create: {{pod: log, count: 2, containers: [{{name: c, cpu_request: 1500m}}]}}"
    await captured(tmp_path / "a.tar.xz", story)
    file = tmp_path / "worker.yaml"
    file.write_text(WORKERS.replace("replicas: 3", "replicas: 1").replace('"3"', '"4"'))
    loop, command = asyncio.get_running_loop(), ["simulate", str(file), "--nodes", str(tmp_path), "-o", "json"]
    assert await loop.run_in_executor(None, run_command, command) == 0
    (node,) = json.loads(capsys.readouterr().out)["nodes"]
    (moved,) = node["moved"]
    assert (node["moves"], moved["container"][:12]) == (1, "default/log-")
    assert node["containers"]["worker-0/c"]["exclusive"] == moved["before"].removeprefix("CPUs ").partition(",")[0]


async def test_a_configuration_that_a_captured_node_cannot_take_is_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await captured(tmp_path / "a.tar.xz")
    (tmp_path / "new.yaml").write_text("reservedResources: {cpu: '8'}\n")
    (tmp_path / "w.yaml").write_text(WORKERS.replace("replicas: 3", "replicas: 1").replace('"3"', '"2"'))
    command = ["simulate", str(tmp_path / "w.yaml"), "--nodes", str(tmp_path), "--config", str(tmp_path / "new.yaml")]
    assert await asyncio.get_running_loop().run_in_executor(None, run_command, command) == 0
    assert "note: a stays as it was configured, as it cannot take" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "problem"),
    [(("--nodes", "x"), "expected a number, or a directory"), (("--nodes", ".", "--machine", "host"), "--machine: ")],
)
def test_wrong_nodes_are_wrong_usage(simulate: Simulate, more: tuple[str, ...], problem: str) -> None:
    status, _, err = simulate(POD.replace("CPUS", "1"), *more, machine="")
    assert (status, problem in err) == (2, True)
