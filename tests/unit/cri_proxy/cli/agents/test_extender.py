"""The extender command, as a process of its own: signals, exit status, and the manifests that start and ask it."""

import json
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from cri_proxy.cli.help.parser import command_parser, load_command
from cri_proxy.cli.main import run_command
from cri_proxy.extender.answers import FILTER_PATH, PRIORITIZE_PATH
from cri_proxy.extender.demand import GPU_RESOURCE
from cri_proxy.extender.server import DEFAULT_ADDRESS, ExtenderServer
from cri_proxy.logs import configure_logging
from tests.fakes import settable_clock
from tests.fakes.http import free_address
from tests.fakes.scheduler import exchanged, named_arguments, pod
from tests.fakes.waiting import holds
from tests.testbed.daemon import program

KUBERNETES = Path(__file__).parents[5] / "packaging" / "kubernetes"
SECONDS = 20
KEP = Path(__file__).parents[5] / "configs" / "links" / "kep-690.txt"
# The fields of Extender in k8s.io/kube-scheduler/config/v1.
EXTENDER_FIELDS = {
    *("urlPrefix", "filterVerb", "preemptVerb", "prioritizeVerb", "weight", "bindVerb", "enableHTTPS", "tlsConfig"),
    *("httpTimeout", "nodeCacheCapable", "managedResources", "ignorable"),
}


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen([*program(), "extender", *words], stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    try:
        yield child
    finally:
        child.kill()
        child.wait(SECONDS)
        child.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_end(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "a").write_text(KEP.read_text())
    address = "{}:{}".format(*free_address())
    with running("--http", address, "--links", str(tmp_path)) as child:
        assert child.stderr is not None
        assert json.loads(child.stderr.readline())["event"] == "serving"
        body = json.dumps(named_arguments(pod(2), ["b", "a"])).encode()
        with urllib.request.urlopen(f"http://{address}{PRIORITIZE_PATH}", body, SECONDS) as answer:
            assert [(row["Host"], row["Score"]) for row in json.load(answer)] == [("b", 0), ("a", 1)]
        child.send_signal(number)
        assert child.wait(SECONDS) == 0
        assert [json.loads(line)["event"] for line in child.stderr] == ["nodes_ranked", "stopping"]


async def test_an_idle_connection_is_dropped_though_the_clock_is_set_back() -> None:
    host, port = free_address()
    with settable_clock.started("extender", "--http", f"{host}:{port}") as child:
        settable_clock.said(child, "serving")
        with socket.create_connection((host, port), SECONDS) as client:
            client.sendall(f"GET /livez HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert b" 200 " in client.recv(4096)
            child.send_signal(settable_clock.SET_BACK)
            client.setblocking(False)

            def is_dropped() -> bool:
                child.send_signal(settable_clock.SET_FORWARD)
                try:
                    return client.recv(4096) == b""
                except BlockingIOError:
                    return False

            await holds("it is dropped", is_dropped)


def test_a_taken_address_is_a_clear_no(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert run_command(["extender", "--http", address]) == 1
    assert f"{address}: the port is taken; --http names another address" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--http", "8892"], "--http: expected ADDRESS:PORT or off, got '8892'"),
        (["--http", "off"], "--http: off leaves nothing to do"),
        (["--links", "/nowhere"], "--links: /nowhere: no such directory; make it, or leave the option out"),
    ],
)
def test_wrong_usage_is_told(capsys: pytest.CaptureFixture[str], words: list[str], problem: str) -> None:
    assert run_command(["extender", *words]) == 2
    assert problem in capsys.readouterr().err


def manifest() -> dict[str, Any]:
    (found,) = yaml.safe_load_all((KUBERNETES / "extender" / "daemonset.yaml").read_text())
    spec: dict[str, Any] = found["spec"]["template"]["spec"]
    return spec


def scheduler() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((KUBERNETES / "extender" / "kube-scheduler.yaml").read_text())
    return found


def listened_to() -> tuple[str, int]:
    (container,) = manifest()["containers"]
    name, *words = container["args"]
    assert (container["command"], name) == (["cri-proxy"], "extender")
    host, _, port = command_parser(name, load_command(name)).parse_args(words).http.rpartition(":")
    return host, int(port)


def test_the_scheduler_waits_a_second_for_an_extender_that_hangs() -> None:
    (extender,) = scheduler()["extenders"]
    assert (extender["httpTimeout"], extender["ignorable"]) == ("1s", True)


def test_the_manifest_listens_where_the_scheduler_asks() -> None:
    (extender,) = scheduler()["extenders"]
    url = urlsplit(extender["urlPrefix"])
    assert (url.hostname, url.port) == listened_to()
    assert f"{url.hostname}:{url.port}" == DEFAULT_ADDRESS
    assert f"{url.path}/{extender['filterVerb']}" == FILTER_PATH
    assert f"{url.path}/{extender['prioritizeVerb']}" == PRIORITIZE_PATH
    assert manifest()["hostNetwork"] is True


def test_the_scheduler_goes_on_without_it_and_asks_about_pods_with_gpus_alone() -> None:
    found = scheduler()
    assert (found["apiVersion"], found["kind"]) == ("kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration")
    (extender,) = found["extenders"]
    assert extender.keys() <= EXTENDER_FIELDS
    assert extender["ignorable"] is True
    assert extender["nodeCacheCapable"] is False
    assert extender["weight"] > 0
    assert extender["managedResources"] == [{"name": GPU_RESOURCE, "ignoredByScheduler": False}]


def test_the_pod_of_the_manifest_has_no_rights_that_it_does_not_need() -> None:
    spec = manifest()
    (container,) = spec["containers"]
    allowed = container["securityContext"]
    assert spec["automountServiceAccountToken"] is False
    assert (allowed["allowPrivilegeEscalation"], allowed["readOnlyRootFilesystem"]) == (False, True)
    assert (allowed["capabilities"], allowed["runAsNonRoot"]) == ({"drop": ["ALL"]}, True)


async def test_the_probes_of_the_manifest_are_answered() -> None:
    (container,) = manifest()["containers"]
    server = ExtenderServer(log=configure_logging("error", "json"))
    await server.open("127.0.0.1:0")
    for kind in ("livenessProbe", "readinessProbe"):
        probe = container[kind]["httpGet"]
        assert (probe["host"], probe["port"]) == listened_to()
        assert (await exchanged(server.addresses[0], "GET", probe["path"]))[0] == 200
    await server.close()
