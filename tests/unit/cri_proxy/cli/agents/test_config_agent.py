"""The config-agent command, as a process of its own: signals, exit status, and the manifest that starts it."""

import asyncio
import json
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cri_proxy.cli.agents.config_agent import NODE_VARIABLE
from cri_proxy.cli.help.parser import command_parser, load_command
from cri_proxy.cli.main import run_command
from cri_proxy.config.load import load_config
from tests.fakes import settable_clock
from tests.fakes.api_server import ApiServer
from tests.fakes.kubelet_volume import KubeletVolume
from tests.fakes.waiting import holds
from tests.testbed.daemon import program

KUBERNETES = Path(__file__).parents[5] / "packaging" / "kubernetes"
SECONDS = 20


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    KubeletVolume(tmp_path / "from").write({"default.yaml": "adopt: leave", "group.rt.yaml": "adopt: pin"})
    return ["config-agent", "--from", f"{tmp_path}/from", "--to", f"{tmp_path}/to"]


def test_once_copies_and_ends(words: list[str], tmp_path: Path) -> None:
    assert run_command([*words, "--once"]) == 0
    assert load_config(tmp_path / "to").config.adopt == "leave"


def test_the_group_may_come_by_option_variable_or_file(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "label").write_text("rt")
    for more in (["--group", "rt"], ["--group-file", f"{tmp_path}/label"], []):
        monkeypatch.setenv("CRI_PROXY_NODE_GROUP", "" if more else "rt")
        assert run_command([*words, *more, "--once"]) == 0
        assert load_config(tmp_path / "to").config.adopt == "pin"


@pytest.mark.parametrize(
    "text",
    [
        'config.nri/group="rt"\napp="agent"\n',
        "kind: Node\nmetadata: {name: w1, labels: {cri-resource-manager.intel.com/group: rt}}\n",
    ],
)
def test_a_process_finds_the_group_among_labels_and_in_the_node(words: list[str], tmp_path: Path, text: str) -> None:
    (tmp_path / "group").write_text(text)
    command = [*program(), *words, "--group-file", f"{tmp_path}/group", "--once"]
    subprocess.run(command, check=True, timeout=SECONDS, capture_output=True)
    assert load_config(tmp_path / "to").config.adopt == "pin"


def test_a_group_that_is_no_name_is_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([*words, "--group", "a/b", "--once"]) == 2
    assert "group: expected letters" in capsys.readouterr().err


def test_what_cannot_be_copied_is_a_clear_no(words: list[str], tmp_path: Path) -> None:
    assert run_command(["config-agent", "--from", f"{tmp_path}/absent", "--to", f"{tmp_path}/to", "--once"]) == 1
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_cleanly_when_it_is_told_to(words: list[str], number: signal.Signals) -> None:
    child = subprocess.Popen([*program(), *words], stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    assert "config_written" in child.stderr.readline()
    child.send_signal(number)
    assert child.wait(SECONDS) == 0
    assert child.stderr.read() == ""
    child.stderr.close()


async def test_a_copy_is_restored_though_the_clock_is_set_back(words: list[str], tmp_path: Path) -> None:
    with settable_clock.started(*words) as child:
        settable_clock.said(child, "config_written")
        child.send_signal(settable_clock.SET_BACK)
        shutil.rmtree(tmp_path / "to")

        def is_restored() -> bool:
            child.send_signal(settable_clock.SET_FORWARD)
            return (tmp_path / "to" / "default.yaml").exists()

        await holds("the copy is there again", is_restored)


async def test_the_label_of_the_node_is_asked_for_at_the_api_server(
    words: list[str], server: ApiServer, account: Path, tmp_path: Path
) -> None:
    """As a pod: a process of its own, over TLS."""
    token = {"token": (account / "token").read_text().strip()}
    cluster = {"server": f"https://127.0.0.1:{server.port}", "certificate-authority": str(account / "ca.crt")}
    named = [{"name": "x", "cluster": cluster, "user": token, "context": {"cluster": "x", "user": "x"}}]
    config = {"current-context": "x", "clusters": named, "users": named, "contexts": named}
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    more = ["--cluster", "--kubeconfig", f"{tmp_path}/kubeconfig", "--once"]
    server.put("/api/v1/nodes/w1", {"metadata": {"name": "w1", "labels": {"config.nri/group": "rt"}}})
    for node, status, adopt in (("w1", 0, "pin"), ("w2", 0, "pin")):  # w2 is not there: the last group stays
        command = [*program(), *words, *more, "--node-name", node]
        child = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        assert (await asyncio.wait_for(child.wait(), SECONDS)) == status
        assert load_config(tmp_path / "to").config.adopt == adopt


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (["--canary", "a=b"], "--canary has no effect without --cluster"),
        (["--cluster", "--canary", "a=b", "--once"], "--canary has no effect with --once"),
        (["--cluster", "--canary", " "], "expected a label, KEY=VALUE"),
        (["--cluster"], "--kubeconfig names a file"),
        (["--cluster", "--kubeconfig", "/does/not/exist"], "cannot be read"),
        (["--cluster", "--kubeconfig", "KUBECONFIG"], "--cluster needs the Node's name: --node-name, or NODE_NAME"),
        (["--cluster", "--kubeconfig", "KUBECONFIG", "--node-name", "a/b"], "--node-name: expected letters"),
        (["--config-map", "cri-proxy"], "expected NAMESPACE/NAME, got 'cri-proxy'"),
        (["--cluster", "--group", "rt"], "not allowed with"),
    ],
)
def test_what_does_not_go_together_is_wrong_usage(
    words: list[str],
    more: list[str],
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("NODE_NAME", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    cluster = {"name": "x", "cluster": {"server": "http://127.0.0.1:1"}, "context": {"cluster": "x"}}
    plain = {"current-context": "x", "clusters": [cluster], "contexts": [cluster]}
    (tmp_path / "kubeconfig").write_text(json.dumps(plain))
    given = [f"{tmp_path}/kubeconfig" if word == "KUBECONFIG" else word for word in more]
    assert run_command([*words, *given]) == 2
    assert problem in capsys.readouterr().err


def documents() -> dict[str, Any]:
    texts = [(KUBERNETES / name).read_text() for name in ("config-agent/daemonset.yaml", "configuration.yaml")]
    return {each["kind"]: each for text in texts for each in yaml.safe_load_all(text)}


def test_the_manifest_starts_it_as_it_wants_to_be_started() -> None:
    spec = documents()["DaemonSet"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    name, *words = container["args"]
    args = command_parser(name, load_command(name)).parse_args(words)
    assert args.cluster
    assert [variable["name"] for variable in container["env"]] == [NODE_VARIABLE]
    mounted = [Path(mount["mountPath"]) for mount in container["volumeMounts"]]
    assert args.origin in mounted
    assert any(args.target.is_relative_to(path) for path in mounted)
    assert all("subPath" not in mount for mount in container["volumeMounts"])
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in spec["volumes"]}


def test_the_agent_of_the_manifest_has_no_rights_that_it_does_not_need() -> None:
    spec = documents()["DaemonSet"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    allowed = container["securityContext"]
    assert spec["serviceAccountName"] == "cri-proxy-config"
    assert (allowed["allowPrivilegeEscalation"], allowed["readOnlyRootFilesystem"]) == (False, True)
    assert allowed["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize(("node", "group"), [("w1", ""), ("w1", "realtime")])
def test_the_configmap_of_the_manifest_is_valid_for_every_node(tmp_path: Path, node: str, group: str) -> None:
    KubeletVolume(tmp_path / "v").write(documents()["ConfigMap"]["data"])
    loaded = load_config(tmp_path / "v", node_name=node, node_group=group)
    assert loaded.warnings == ()
    assert loaded.path.name == (f"group.{group}.yaml" if group else "default.yaml")
