"""Stories of nodes whose processes are alone in pid, mount and network namespaces: doctor reads the kernel's proc."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
ALONE = ("unshare", "--pid", "--mount", "--net", "--fork", "--kill-child", "--mount-proc")
BEGIN = """
import json, subprocess, sys
from tests.fakes.kubelet_node import RUNTIME, kubelet_node
with kubelet_node(is_alone=True) as node:
    node.start_runtime()
    node.start_proxy()
"""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces of its own need root")


def examined(story: str) -> tuple[int, list[str], dict[str, str]]:
    """Play this at the end of BEGIN, then run doctor there: its exit status, what must be mended, what was seen."""
    lines = "".join(f"    {line}\n" for line in (*story.strip().splitlines(), 'sys.exit(node.doctor("-o", "json"))'))
    done = subprocess.run(
        [*ALONE, sys.executable, "-c", BEGIN + lines],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    must = [finding["code"] for finding in report["findings"] if finding["severity"] == "must"]
    return done.returncode, must, {part["part"]: part["state"] for part in report["seen"]}


def test_a_kubelet_that_is_connected_is_found_among_all_processes_of_the_node() -> None:
    status, must, seen = examined("node.start_kubelet()")
    assert (status, must) == (0, [])
    assert "connected to /run/cri-proxy/cri-proxy.sock" in seen["kubelet"]


def test_a_kubelet_that_talks_to_containerd_is_found() -> None:
    status, must, _ = examined("node.start_kubelet(connects=[RUNTIME])")
    assert (status, must) == (1, ["kubelet-elsewhere"])


def test_a_process_of_a_container_is_not_the_kubelet_whatever_its_name() -> None:
    """It is in a pid namespace below the node's, as a container of a pod named so would be."""
    contained = """
command = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-c",
           "open('/proc/self/comm', 'w').write('kubelet'); print('ready', flush=True); input()"]
pod = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert pod.stdout.readline() == b"ready\\n"
"""
    status, must, seen = examined(contained)
    assert (status, must) == (0, [])
    assert seen["kubelet"] == "does not run"
