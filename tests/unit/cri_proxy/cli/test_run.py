import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from cri_proxy.cli.help.parser import command_parser, load_command
from cri_proxy.cli.main import run_command
from cri_proxy.cli.run import settings_from
from cri_proxy.config.cpus import CpuQuantity
from cri_proxy.errors import ConfigError
from policies.topology_aware import TopologyAwareOptions


def parsed(*argv: str) -> argparse.Namespace:
    return command_parser("run", load_command("run")).parse_args(argv)


def test_every_option_of_the_contract_is_understood() -> None:
    settings = settings_from(
        parsed(
            *("--listen", "unix:///l.sock", "--runtime-endpoint", "embedded", "--image-listen", "unix:///i.sock"),
            *("--image-endpoint", "unix:///e.sock", "--node-name", "w1", "--node-group", "g1", "--relay", "grpc"),
            *("--state-dir", "/s", "--sysfs-root", "/r", "--http", "off", "--policy", "none"),
            *("--reserved-resources", "cpu=750m", "--no-topology-aware-pin-memory"),
        )
    )
    assert (settings.config.listen, settings.config.runtime_endpoint, settings.config.relay) == (
        "unix:///l.sock",
        "embedded",
        "grpc",
    )
    assert (settings.config.image_listen, settings.config.image_endpoint) == ("unix:///i.sock", "unix:///e.sock")
    assert (settings.node_name, settings.config.node_group, settings.config.http) == ("w1", "g1", "off")
    assert (settings.state_dir, settings.sysfs_root) == (Path("/s"), Path("/r"))
    assert settings.config.reserved.cpu == CpuQuantity(750)
    assert not settings.config.of_policy(TopologyAwareOptions).pin_memory


def test_the_defaults_are_those_of_the_contract() -> None:
    settings = settings_from(parsed())
    assert settings.config.listen == "unix:///run/cri-proxy/cri-proxy.sock"
    assert settings.config.runtime_endpoint == "unix:///run/containerd/containerd.sock"
    assert settings.config.http == "127.0.0.1:8891"


def test_the_command_line_beats_the_file(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("adopt: leave\nhttp: off\n")
    settings = settings_from(parsed("--config", str(tmp_path / "c.yaml"), "--http", "127.0.0.1:1"))
    assert (settings.config.http, settings.config.adopt) == ("127.0.0.1:1", "leave")


def test_the_node_name_chooses_in_a_directory(tmp_path: Path) -> None:
    (tmp_path / "node.w1.yaml").write_text("adopt: leave")
    (tmp_path / "default.yaml").write_text("adopt: pin")
    assert settings_from(parsed("--config", str(tmp_path), "--node-name", "w1")).config.adopt == "leave"
    assert settings_from(parsed("--config", str(tmp_path), "--node-name", "w2")).config.adopt == "pin"


@pytest.mark.parametrize("flag", ["--image-listen", "--image-endpoint"])
def test_one_image_socket_without_the_other_is_wrong_usage(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["run", flag, "unix:///x.sock"]) == 2
    assert "give both or neither" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argument", ["--relay=smoke", "--listen=tcp://x", "--reserved-resources=cpu=much", "--http=8891"]
)
def test_a_value_that_cannot_be_is_wrong_usage(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["run", argument]) == 2
    assert "expected" in capsys.readouterr().err


def test_a_wrong_file_is_a_clear_no(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.yaml").write_text("adopt: maybe")
    assert run_command(["run", "--config", str(tmp_path / "c.yaml")]) == 1
    assert "c.yaml:1: adopt: expected one of pin, leave, got 'maybe'" in capsys.readouterr().err


def test_a_missing_file_is_an_error_with_its_name() -> None:
    with pytest.raises(ConfigError, match=r"/nonexistent\.yaml: cannot read"):
        settings_from(parsed("--config", "/nonexistent.yaml"))


def test_a_root_without_a_machine_is_named_with_the_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["run", "--sysfs-root", "/nowhere", "--state-dir", str(tmp_path), "--listen", f"unix://{tmp_path}/l.sock"]
    assert run_command(argv) == 1
    problem = "machine '/nowhere': no such directory; --sysfs-root takes the directory that holds sys/ and proc/"
    assert capsys.readouterr().err == f"cri-proxy run: {problem}\n"


# In a process of its own: this one has threads, and may not fork.
HELPERS = """
import sys
from pathlib import Path
from cri_proxy.cli.run import fork_launcher, without_openssl

with without_openssl():
    launcher = fork_launcher()
helper = launcher.start()
from functools import partial
from cri_proxy.costs.merge import CostDirectory
from cri_proxy.in_force.state_file import find_document, save_document
from cri_proxy.inventory.merge import InventoryFile
from cri_proxy.device_files import locality, mounts, pci_functions
from cri_proxy.device_files.cdi import CdiFiles, ask_cdi
from cri_proxy.cri.device_names.names import DeviceName
from cri_proxy.device_files.nvidia_driver import nvidia_gpus
from cri_proxy.cri.device_names.nvidia_gpus import NO_GPUS
from cri_proxy.node.drift import kubelet_state
from cri_proxy.node.resource_files.directories import list_directories
from cri_proxy.state.process_lock import note_holder
from cri_proxy.state import session

root = Path(sys.argv[1])
LOADED = "{name for name, module in __import__('sys').modules.items() if module}"
before = helper.call(eval, LOADED)
helper.call(locality.localities, root, (DeviceName("path", "/dev/null"),), {}, NO_GPUS)
helper.call(locality.device_numbers, root, ("/dev/null",))
helper.call(ask_cdi, root, b"", CdiFiles.named, (("a/b=c", ""),))
helper.call(partial(nvidia_gpus, with_parts=True), root)
helper.call(mounts.subjects_of, root, ("/dev/null",))
helper.call(pci_functions.functions_at, root, ["0000:51:00.1"])
for source in (CostDirectory(root), InventoryFile(root / "devices.yaml")):
    helper.call(source.lookups)
    helper.call(source.judge, helper.call(source.read), {})
helper.call(find_document, root / "texts.json", 9)
helper.call(save_document, root / "state" / "texts.json", {}, 9, frozenset())
helper.call(kubelet_state.read_managers, root)
helper.call(list_directories, root)
helper.call(note_holder, root / "lock", "1")
helper.call(session._in_helper, root / "state.db", session.LocalSession.open, 1.0)
print("late:", sorted(helper.call(eval, LOADED) - before))
unused = {"asyncio", "structlog", "google.protobuf", "ssl", "logging", "difflib", "tomllib", "policies.hints.policies"}
unused |= {"cri_proxy.config.model"}
print("in all:", sorted(helper.call(eval, LOADED) & unused))

import asyncio, hashlib
from cri_proxy.daemon import app
print("here:", sorted(eval(LOADED) & {"_ssl", "_hashlib"}), hashlib.sha256(b"").hexdigest()[:8])
from cri_proxy.metrics.exposition import exposition
print("scraped:", exposition([]), sorted(eval(LOADED) & {"_ssl", "http.server", "wsgiref"}))
"""


def test_helper_processes_load_little_and_the_daemon_no_openssl(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HELPERS, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("late: []\nin all: []\nhere: [] e3b0c442\nscraped: b'' []\n", "")
