"""The nodes of ``status --nodes``: lines, what kubectl prints, and a label at an API server over TLS."""

import asyncio
import json
from pathlib import Path

import pytest

from cri_proxy.cli.main import run_command
from cri_proxy.cli.remote.node_list import nodes_in, nodes_in_json
from cri_proxy.errors import CommandFailed
from tests.fakes.api_server import TOKEN, ApiServer, Plain, Scripted
from tests.testbed.certificates import Certificate

# No daemon answers there, which is what the table then says of each node.
CLOSED = ["--port", "1"]


def node(name: str, address: str = "127.0.0.1", **labels: str) -> Plain:
    addresses = [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}]
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"addresses": addresses}}


@pytest.fixture
def kubeconfig(server: ApiServer, certificate: Certificate, tmp_path: Path) -> Path:
    cluster = {"server": f"https://127.0.0.1:{server.port}", "certificate-authority": str(certificate.certificate)}
    config = {
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
    }
    (tmp_path / "config").write_text(json.dumps(config))
    return tmp_path / "config"


async def status(*words: str) -> int:
    return await asyncio.to_thread(run_command, ["status", *words])


async def test_a_label_makes_a_row_of_each_node_that_has_it(
    server: ApiServer, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, pool in (("w2", "gpu"), ("w1", "gpu"), ("w3", "web")):
        server.put(f"/api/v1/nodes/{name}", node(name, pool=pool))
    monkeypatch.setenv("KUBECONFIG", f"/does/not/exist:{kubeconfig}")
    assert await status("--nodes", "pool=gpu", *CLOSED, "-o", "json") == 1
    rows = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["url"], row["state"]) for row in rows] == [
        ("w1", "https://127.0.0.1:1", "unreachable"),
        ("w2", "https://127.0.0.1:1", "unreachable"),
    ]


async def test_more_nodes_than_one_answer_holds_come_in_pages(
    server: ApiServer, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = [{"kind": "NodeList", "metadata": more, "items": [node(name)]} for name, more in PAGES]
    server.scripted = [Scripted(200, raw=json.dumps(page).encode()) for page in pages]
    await status("--nodes", "pool=gpu", "--kubeconfig", str(kubeconfig), *CLOSED, "-o", "json")
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == ["w1", "w2"]
    assert "continue=next" in server.requests[-1].path


PAGES: tuple[tuple[str, Plain], ...] = (("w2", {"continue": "next"}), ("w1", {}))


@pytest.mark.parametrize(
    ("words", "status_code", "problem"),
    [
        (["--nodes", "pool=none"], 2, "--nodes pool=none: expected 1 to 5000 nodes, got 0"),
        (["--nodes", "a in (b)"], 1, "unable to parse requirement"),
        (["--nodes", "pool=gpu", "--kubeconfig", "/does/not/exist"], 2, "or let kubectl ask: kubectl get nodes -l"),
        (["--nodes", "nodes.txt"], 2, "no file nodes.txt; a label is KEY=VALUE"),
        (["--nodes", "pool=gpu", "--port", "0"], 2, "expected a port from 1 to 65535"),
    ],
)
async def test_what_cannot_be_asked_is_an_error_with_the_remedy(
    kubeconfig: Path, words: list[str], status_code: int, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    more = [] if "--kubeconfig" in words else ["--kubeconfig", str(kubeconfig)]
    assert await status(*words, *more) == status_code
    assert problem in capsys.readouterr().err


async def test_who_may_not_list_nodes_is_told_so(
    server: ApiServer, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.scripted = [Scripted(403, "Forbidden", "nodes is forbidden")]
    assert await status("--nodes", "pool=gpu", "--kubeconfig", str(kubeconfig)) == 1
    assert "403 Forbidden: nodes is forbidden" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address_type", "url"),
    [("InternalIP", "https://[fd00::1]:9"), ("Hostname", "https://w1:9"), ("name", "https://w1:9")],
)
def test_the_list_of_kubectl_has_the_addresses(address_type: str, url: str) -> None:
    text = json.dumps({"kind": "List", "items": [node("w1", "fd00::1")]})
    assert [(name, str(found)) for name, found in nodes_in_json(text, "-", address_type, 9)] == [("w1", url)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "expected lines, or what kubectl get nodes -o json prints"),
        ('{"kind": "Pod"}', "expected a list of Nodes, got Pod"),
        ('{"items": [{}]}', "an object without a name"),
        ('{"items": [{"metadata": {"name": "w1"}}]}', r"w1 has no InternalIP: --address-type names another \(none\)"),
        (
            json.dumps({"items": [node("w1", "a/b")]}),
            "w1: ",
        ),
    ],
)
def test_what_is_no_list_of_nodes_is_an_error(text: str, problem: str) -> None:
    with pytest.raises(CommandFailed, match=problem):
        nodes_in_json(text, "-", "InternalIP", 8891)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "got 0"),
        ("a b https://c", "line 1: expected \\[NAME\\] https://"),
        ("# list\nworker-1", "line 2: expected https://HOST"),
        ("worker-1 http://worker-1", "line 1: .*plain HTTP"),
    ],
)
def test_a_list_of_nodes_has_a_url_in_each_line(text: str, problem: str) -> None:
    with pytest.raises(CommandFailed, match=problem):
        nodes_in(text, "nodes")


@pytest.mark.parametrize(
    ("option", "text", "said"),
    [
        ("--port=1", "https://w1\n", "--port has no effect without --nodes LABEL, or of Nodes that kubectl prints"),
        ("--address-type=name", "https://w1\n", "--address-type has no effect without --nodes LABEL"),
        ("--kubeconfig=c", "{}", "--kubeconfig has no effect without --nodes LABEL"),
    ],
)
async def test_an_option_for_labels_is_wrong_usage_with_a_file(
    option: str, text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "nodes").write_text(text)
    assert await status("--nodes", f"{tmp_path}/nodes", option) == 2
    assert said in capsys.readouterr().err
