"""Specifications of the shape that vendors write, resolved below a directory whose device nodes are real ones."""

import json
from pathlib import Path

import pytest

from cri_proxy.cri.cdi.conversion import GivenMount
from cri_proxy.cri.cdi.edits import CdiNode
from cri_proxy.cri.cdi.resolve import MAX_EDITS, ResolvedDevices
from cri_proxy.device_files.cdi import CdiFiles
from tests.fakes.secret_files import SECRETS

NVIDIA = """\
---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
    - name: "0"
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
    - name: all
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
containerEdits:
    env:
        - NVIDIA_VISIBLE_DEVICES=void
    deviceNodes:
        - path: /dev/nvidiactl
        - path: /dev/nvidia-uvm
    hooks:
        - hookName: createContainer
          path: /usr/bin/nvidia-ctk
          args: [nvidia-ctk, hook, update-ldcache, --folder, /usr/lib/x86_64-linux-gnu]
    mounts:
        - hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.550.90.07
          containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.550.90.07
          options: [ro, nosuid, nodev, bind]
"""
WITHOUT_HOOKS = NVIDIA[: NVIDIA.index("    hooks:")] + NVIDIA[NVIDIA.index("    mounts:") :]
LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so.550.90.07"


def put(root: Path, text: str, name: str = "etc/cdi/vendor.yaml") -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def host(root: Path) -> Path:
    """A host with the nodes and the library; the nodes are links to the zero device, as links are followed."""
    (root / "dev").mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (root / "dev" / name).symlink_to("/dev/zero")
    put(root, "", LIBRARY.lstrip("/"))
    return root


def spec(*devices: dict[str, object], **fields: object) -> str:
    return json.dumps({"cdiVersion": "0.6.0", "kind": "a.com/b", "devices": devices, **fields})


def device(name: str = "0", **edits: object) -> dict[str, object]:
    return {"name": name, "containerEdits": edits}


def resolved(root: Path, *names: str) -> ResolvedDevices:
    return CdiFiles(root).resolve(names)


def test_a_device_brings_its_own_edits_after_those_of_its_file(tmp_path: Path) -> None:
    put(host(tmp_path), WITHOUT_HOOKS)
    found = resolved(tmp_path, "nvidia.com/gpu=0")
    assert (found.names, found.problem) == (("nvidia.com/gpu=0",), "")
    assert found.given.variables == (("NVIDIA_VISIBLE_DEVICES", "void"),)
    assert found.given.nodes == tuple(
        CdiNode(p, p, "rwm") for p in ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0")
    )
    assert found.given.mounts == (GivenMount(LIBRARY, LIBRARY, is_readonly=True),)
    assert found.given.notes == (f"mounted without nosuid, nodev: {LIBRARY}",)


def test_a_hook_refuses_all_of_it_and_names_device_file_and_hook(tmp_path: Path) -> None:
    put(host(tmp_path), NVIDIA)
    found = resolved(tmp_path, "nvidia.com/gpu=0")
    assert (found.names, found.given.nodes) == ((), ())
    assert found.problem.startswith(
        "nvidia.com/gpu=0 (/etc/cdi/vendor.yaml) has the createContainer hook /usr/bin/nvidia-ctk"
    )


def test_names_that_no_file_declares_are_left_out(tmp_path: Path) -> None:
    put(tmp_path, spec(device(env=["A=1"])))
    assert resolved(tmp_path, "a.com/b=1", "x", "a.com/b=0", "a.com/b=0").names == ("a.com/b=0",)
    assert resolved(tmp_path / "elsewhere", "a.com/b=0") == ResolvedDevices(())


@pytest.mark.parametrize(
    "text",
    ["[]", '{"kind": 3, "devices": []}', '{"kind": "a.com/b", "devices": 3}', '{"devices": [{"name": "0"}]}',
     '{"kind": "a.com/b", "devices": [3, {"name": []}, {}]}'],
)  # fmt: skip
def test_what_is_no_specification_declares_nothing(text: str, tmp_path: Path) -> None:
    put(tmp_path, text)
    assert resolved(tmp_path, "a.com/b=0", "3=0", "None=0") == ResolvedDevices(())


def test_of_variables_and_places_in_the_container_the_last_counts(tmp_path: Path) -> None:
    host(tmp_path)
    nodes = [[{"path": f"/dev{'/' * (i + 1)}gpu", "hostPath": f"/dev/nvidia{i}"}] for i in range(2)]
    both = [device(str(i), env=[f"A={i}", f"B{i}=1"], deviceNodes=nodes[i]) for i in range(2)]
    put(tmp_path, spec(*both, containerEdits={"env": ["A=common", "C=1"], "additionalGids": [7, 7]}))
    given = resolved(tmp_path, "a.com/b=1", "a.com/b=0").given
    assert dict(given.variables) == {"A": "0", "B0": "1", "B1": "1", "C": "1"}
    assert (given.nodes, given.group_ids) == ((CdiNode("/dev/gpu", "/dev/nvidia0", "rwm"),), (7,))


def test_edits_of_a_file_come_once_and_before_its_first_device(tmp_path: Path) -> None:
    """After the first device they would undo what it says."""
    put(tmp_path, spec(device("0", env=["A=0"]), device("1", env=["B=1"]), containerEdits={"env": ["A=common"]}))
    assert dict(resolved(tmp_path, "a.com/b=0", "a.com/b=1").given.variables) == {"A": "0", "B": "1"}


def test_the_stronger_directory_hides_a_device_of_the_other(tmp_path: Path) -> None:
    put(tmp_path, spec(device(env=["A=etc"]), device("1", env=["B=etc"])))
    put(tmp_path, spec(device(env=["A=run"])), "var/run/cdi/vendor.json")
    assert dict(resolved(tmp_path, "a.com/b=0", "a.com/b=1").given.variables) == {"A": "run", "B": "etc"}


def test_two_of_a_name_in_one_directory_are_in_conflict_and_the_others_of_the_files_are_not(tmp_path: Path) -> None:
    put(tmp_path, spec(device(env=["A=1"]), device("1", env=["B=1"])))
    put(tmp_path, spec(device(env=["A=2"])), "etc/cdi/other.json")
    both = "/etc/cdi/other.json and /etc/cdi/vendor.yaml"
    put(tmp_path, spec(device(env=["A=4"])), "etc/cdi/w.json")
    problem = resolved(tmp_path, "a.com/b=0").problem
    assert problem == f"a.com/b=0 is declared twice, in {both}: neither counts until one is removed"
    assert resolved(tmp_path, "a.com/b=1").names == ("a.com/b=1",)
    put(tmp_path, spec(device(env=["A=3"])), "var/run/cdi/vendor.json")
    assert dict(resolved(tmp_path, "a.com/b=0").given.variables) == {"A": "3"}  # it hides both


def test_a_name_twice_in_one_file_is_in_conflict_too(tmp_path: Path) -> None:
    put(tmp_path, spec(device(), device()))
    assert "declared twice, in /etc/cdi/vendor.yaml and /etc/cdi/vendor.yaml" in resolved(tmp_path, "a.com/b=0").problem


@pytest.mark.parametrize("version", ["0.3.0", "0.8.0", "1.1.0", "v0.6.0"])
def test_versions_that_are_known_count(version: str, tmp_path: Path) -> None:
    put(tmp_path, spec(device(env=["A=1"]), cdiVersion=version))
    assert resolved(tmp_path, "a.com/b=0").problem == ""


@pytest.mark.parametrize("version", ["2.0.0", "", "0.6", "1.0.0.1", None, 0.6])
def test_another_version_is_refused(version: object, tmp_path: Path) -> None:
    put(tmp_path, spec(device(env=["A=1"]), cdiVersion=version))
    assert f"has cdiVersion {version!r}" in resolved(tmp_path, "a.com/b=0").problem


def test_kinds_and_names_that_cdi_does_not_allow_are_refused(tmp_path: Path) -> None:
    put(tmp_path, spec(device(), kind="a.com/b/c"))
    assert "has the kind 'a.com/b/c'" in resolved(tmp_path, "a.com/b/c=0").problem
    put(tmp_path, spec(device("-")))
    assert "a name that CDI does not allow" in resolved(tmp_path, "a.com/b=-").problem


def test_a_field_that_is_not_known_refuses_its_device_or_all_of_its_file(tmp_path: Path) -> None:
    """A misspelt field left out would be a device given in part, or not at all."""
    put(tmp_path, spec({"name": "0", "containerEdit": {"env": ["A=1"]}}, device("1", env=["B=1"]), annotations={}))
    assert "has the field 'containerEdit' in devices" in resolved(tmp_path, "a.com/b=0").problem
    assert resolved(tmp_path, "a.com/b=1").problem == ""
    put(tmp_path, spec(device("1", env=["B=1"]), containerEdit={"env": ["A=1"]}))
    assert "has the field 'containerEdit' in the specification" in resolved(tmp_path, "a.com/b=1").problem


@pytest.mark.parametrize("edits", [{}, {"containerEdits": None}, {"containerEdits": {"env": []}}])
def test_a_device_that_changes_nothing_is_refused(edits: dict[str, object], tmp_path: Path) -> None:
    put(tmp_path, spec({"name": "0", **edits}, containerEdits={"env": ["A=1"]}))
    assert "has no containerEdits, which CDI asks of every device" in resolved(tmp_path, "a.com/b=0").problem


def test_edits_are_read_whatever_the_case_of_their_name(tmp_path: Path) -> None:
    put(tmp_path, spec({"name": "0", "containeredits": {"env": ["A=1"]}}, ContainerEdits={"env": ["B=1"]}))
    assert dict(resolved(tmp_path, "a.com/b=0").given.variables) == {"A": "1", "B": "1"}


def test_another_devices_edits_do_not_count(tmp_path: Path) -> None:
    put(tmp_path, spec(device(env=["A=1"]), device("1", hooks=[{"hookName": "prestart", "path": "/x"}], surprise=1)))
    assert resolved(tmp_path, "a.com/b=0").names == ("a.com/b=0",)
    assert "surprise" in resolved(tmp_path, "a.com/b=1").problem


def test_a_node_that_is_missing_or_another_one_is_refused(tmp_path: Path) -> None:
    nodes = [{"path": "/dev/nvidia0", "type": "c", "major": 195, "minor": 0}]
    put(host(tmp_path), spec(device("0", deviceNodes=nodes), device("1", deviceNodes=[{"path": "/dev/none"}])))
    assert "as c 195:0, and the host's /dev/nvidia0 is c 1:5" in resolved(tmp_path, "a.com/b=0").problem
    assert "the host has no /dev/none" in resolved(tmp_path, "a.com/b=1").problem


def test_more_than_a_request_can_hold_is_refused(tmp_path: Path) -> None:
    put(tmp_path, spec(*(device(str(more), env=[f"A{i}=1" for i in range(MAX_EDITS + more)]) for more in (0, 1))))
    assert len(resolved(tmp_path, "a.com/b=0").given.variables) == MAX_EDITS
    assert f"more than {MAX_EDITS} edits" in resolved(tmp_path, "a.com/b=1").problem


def test_groups_count_as_edits_too(tmp_path: Path) -> None:
    put(tmp_path, spec(device(additionalGids=list(range(1, MAX_EDITS + 2)))))
    assert f"more than {MAX_EDITS} edits" in resolved(tmp_path, "a.com/b=0").problem


def test_a_long_value_is_cut_in_the_sentence(tmp_path: Path) -> None:
    put(tmp_path, spec(device(env=["x" * 100_000])))
    assert len(resolved(tmp_path, "a.com/b=0").problem) < 5000


@pytest.mark.parametrize("name", SECRETS)
def test_of_a_file_that_is_no_specification_nothing_is_repeated(tmp_path: Path, name: str) -> None:
    put(tmp_path, SECRETS[name])
    assert CdiFiles(tmp_path).resolve(["nvidia.com/gpu=0", "zqtls/zqkey=zq"]) == ResolvedDevices(())
