import asyncio
import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from cri_proxy.cli.fit import fit_text
from cri_proxy.cli.main import run_command
from cri_proxy.http.routes import body_route, build_routes
from cri_proxy.http.server import AdminServer
from cri_proxy.intercept.fit import MOST_CONTAINERS, ContainerFit, FitMove, FitView, fit
from cri_proxy.simulate.node import SimulatedNode
from sysfs.descriptions.machine import describe

POD = (
    "kind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, resources: {limits: {cpu: CPUS, memory: 1Gi}}}]}\n"
)
Asked = tuple[int, str, str]


async def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, *argv: str) -> Asked:
    """Run the command against a node of 8 CPUs behind a real socket."""
    node = SimulatedNode(describe({"packages": 2, "cores": 4, "memory": "8Gi"}), {})
    await node.recover()
    posts = {
        "/api/v1/fit": body_route(lambda asked: fit(node.node, node.interceptor.reader, asked.body, turn=nullcontext))
    }
    server = AdminServer(build_routes(node.view), posts=posts)
    await server.listen_unix(tmp_path / "admin.sock")
    (tmp_path / "m.yaml").write_text(text)
    command = ["fit", str(tmp_path / "m.yaml"), "--admin", f"unix://{tmp_path}/admin.sock", *argv]
    status = await asyncio.get_running_loop().run_in_executor(None, partial(run_command, command))
    await server.close()
    await node.close()
    streams = capsys.readouterr()
    return status, streams.out, streams.err


@pytest.mark.parametrize(("cpus", "status"), [("4", 0), ("9", 1)])
async def test_the_running_node_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cpus: str, status: int
) -> None:
    found, out, _ = await ask(tmp_path, capsys, POD.replace("CPUS", cpus), "-o", "json")
    (container,) = json.loads(out)["containers"]
    assert (found, bool(container["refused"]), container["container"]) == (status, bool(status), "default/web/c")


async def test_memory_that_no_node_has_takes_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pod = POD.replace("CPUS", "1")
    nodes = []
    for memory in ("1Gi", "12Gi"):
        _, out, _ = await ask(tmp_path, capsys, pod.replace("1Gi", memory), "-o", "json")
        nodes.append(len(json.loads(out)["containers"][0]["mems"].split("-")))
    assert nodes == [1, 2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [("kind: Service\n", "the manifests have no pods"), ("kind: Pod\n\t- x\n", "m.yaml:2")],
)
async def test_a_question_without_pods_is_not_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    status, _, err = await ask(tmp_path, capsys, text)
    assert status == 1
    assert problem in err


def test_more_containers_than_the_daemon_answers_for_are_not_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    many: Callable[..., object] = lambda *_: {"nodes": [{"memory_bytes": 1 << 30}]}  # noqa: E731
    monkeypatch.setattr("cri_proxy.http.client.ask", many)
    (tmp_path / "m.yaml").write_text(f"count: 501\n{POD.replace('CPUS', '1')}")
    assert run_command(["fit", str(tmp_path / "m.yaml")]) == 1
    assert "the daemon answers for 500" in capsys.readouterr().err


async def test_as_many_small_pods_as_the_daemon_answers_for_are_a_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = f"count: {MOST_CONTAINERS}\n{POD.replace('CPUS', '10m').replace('1Gi', '1Mi')}"
    status, out, err = await ask(tmp_path, capsys, small, "-o", "json")
    assert (status in (0, 1), err) == (True, "")
    assert len(json.loads(out)["containers"]) == MOST_CONTAINERS


async def test_a_question_of_too_many_bytes_is_not_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    large = POD.replace("{name: web}", f"{{name: web, labels: {{text: {'x' * 60}}}, annotations: {{a: {'x' * 4000}}}}}")
    status, _, err = await ask(tmp_path, capsys, f"count: 400\n{large.replace('CPUS', '10m')}")
    assert status == 1
    assert "the daemon reads 1Mi at once: ask about fewer pods" in err


def test_the_text_names_places_moves_and_refusals() -> None:
    move = FitMove("d/log/c", "0-7", "0-3", "0", "0")
    placed = ContainerFit(
        "d/web/c", kind="exclusive", pool="socket #0", cpus="2-3", own_cpus="2-3", mems="0", moves=(move,), narrowed=2
    )
    text = fit_text(FitView((placed, ContainerFit("d/big/c", "no room", problems=("wrong",)))))
    assert text.splitlines() == [
        "d/web/c: exclusive, CPUs 2-3, memory nodes 0, socket #0",
        "    moves d/log/c: CPUs 0-7 -> 0-3",
        "    narrows the shared CPUs of 2 containers",
        "d/big/c: annotation without effect: wrong",
        "d/big/c: would be refused: no room",
        "1 of 2 containers would be placed; nothing was changed",
    ]
    assert "shared CPUs of 1 container\n" in fit_text(FitView((replace(placed, narrowed=1),)))


def test_lines_are_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    reason = "NUMA node #0 gives 4 exclusive CPUs; next would be NUMA node #1, where more is in use"
    text = fit_text(FitView((ContainerFit("d/web/c", kind="exclusive", cpus="0-3", reasons=(reason,)),)))
    assert max(map(len, text.splitlines())) <= 60
    assert "next would be NUMA\n        node #1, where" in text
