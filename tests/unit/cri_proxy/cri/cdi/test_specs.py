import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.cri.cdi.specs import behind, cdi_spec
from cri_proxy.device_files.cdi import MAX_FILE_BYTES, CdiFiles
from tests.fuzz.budget import memory_of

GPUS = {
    "cdiVersion": "0.6.0",
    "kind": "example.com/gpu",
    "devices": [
        {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/gpu0"}]}},
        {"name": "1", "containerEdits": {"deviceNodes": [{"path": "/dev/gpu", "hostPath": "/dev/gpu1"}]}},
    ],
    "containerEdits": {"deviceNodes": [{"path": "/dev/gpuctl"}]},
}


def specs(root: Path, text: str, name: str = "etc/cdi/gpu.json") -> CdiFiles:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)
    return CdiFiles(root)


def paths(found: CdiFiles, names: list[str]) -> tuple[str, ...]:
    return tuple(name.text for name in found.named([(name, "") for name in names]))


def test_a_name_gives_the_nodes_of_its_device_and_of_the_whole_file(tmp_path: Path) -> None:
    found = specs(tmp_path, json.dumps(GPUS))
    assert paths(found, ["example.com/gpu=1"]) == ("/dev/gpu1", "/dev/gpuctl")


def test_of_a_name_that_stands_twice_in_a_file_the_last_counts() -> None:
    spec = cdi_spec({"kind": "a.com/b", "devices": [{"name": "0", "at": 1}, {"name": "0", "at": 2}]})
    assert (spec.device("a.com/b=0"), spec.device("a.com/b=1")) == (({"name": "0", "at": 2},), ())


def test_several_names_give_each_node_once(tmp_path: Path) -> None:
    found = specs(tmp_path, json.dumps(GPUS))
    assert paths(found, ["example.com/gpu=0", "example.com/gpu=1", "example.com/gpu=7"]) == (
        "/dev/gpu0", "/dev/gpuctl", "/dev/gpu1",
    )  # fmt: skip


def test_what_was_made_at_run_time_goes_before_what_was_installed(tmp_path: Path) -> None:
    specs(tmp_path, json.dumps(GPUS))
    now = 'kind: example.com/gpu\ndevices: [{name: "0", containerEdits: {deviceNodes: [{path: /dev/new}]}}]\n'
    assert paths(specs(tmp_path, now, "var/run/cdi/gpu.yaml"), ["example.com/gpu=0"]) == ("/dev/new",)


def test_each_name_is_looked_for_in_all_files(tmp_path: Path) -> None:
    specs(
        tmp_path,
        'kind: a.com/b\ndevices: [{name: "0", containerEdits: {deviceNodes: [{path: /dev/b}]}}]\n',
        "etc/cdi/a.yaml",
    )
    found = specs(tmp_path, json.dumps(GPUS))
    assert paths(found, ["example.com/gpu=0", "a.com/b=0"]) == ("/dev/gpu0", "/dev/gpuctl", "/dev/b")
    assert found.named([]) == ()


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    found = specs(tmp_path, json.dumps(GPUS))
    assert paths(found, ["example.com/gpu=0"])
    specs(tmp_path, "{}")
    assert paths(found, ["example.com/gpu=0"]) == ()


@pytest.mark.parametrize(
    "text",
    ["[]", "{", "kind: 1", "kind: a/b\ndevices: 3", "kind: a/b\ndevices: [1, {name: []}, {}]", "devices: [{name: c}]"],
)
def test_a_file_that_makes_no_sense_has_no_devices(text: str, tmp_path: Path) -> None:
    found = specs(tmp_path, text)
    assert found.declared(["a/b=c", "a/b=[]", "a/b=None", "None=c"]) == paths(found, ["a/b=c", "None=c"]) == ()


def test_files_that_are_no_specifications_are_named(tmp_path: Path) -> None:
    found = specs(tmp_path, json.dumps(GPUS))
    assert found.unreadable() == ()
    (tmp_path / "etc/cdi").mkdir(parents=True, exist_ok=True)
    (tmp_path / "etc/cdi/broken.json").write_text('{"kind": "a/b", "devices": [{')
    (tmp_path / "etc/cdi/empty.json").touch()
    assert [Path(path).name for path in found.unreadable()] == ["broken.json", "empty.json"]


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    text = json.dumps(GPUS) + " " * MAX_FILE_BYTES
    assert paths(specs(tmp_path, text), ["example.com/gpu=0"]) == ()


@given(st.binary(max_size=200))
def test_no_content_makes_it_fail(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    root = tmp_path_factory.mktemp("cdi")
    (root / "etc/cdi").mkdir(parents=True)
    (root / "etc/cdi/a.yaml").write_bytes(content)
    assert paths(CdiFiles(root), ["a/b=c"]) == ()


def test_many_devices_with_many_common_nodes_take_no_more_than_the_file_is_long(tmp_path: Path) -> None:
    """Each device has all of them: as a list of their own for each, 2000 times 2000 took 32 MB."""
    common = {"deviceNodes": [{"path": f"/dev/common{number}"} for number in range(2000)]}
    devices = [{"name": str(number)} for number in range(2000)]
    text = json.dumps({"kind": "example.com/gpu", "devices": devices, "containerEdits": common})
    found = specs(tmp_path, text)
    # A fresh look at each run: what was read before is kept.
    assert memory_of(lambda _: bool(paths(CdiFiles(tmp_path), ["example.com/gpu=7"])), b"") < 50 * len(text)
    assert len(paths(found, ["example.com/gpu=7", "example.com/gpu=8"])) == 2000


def test_only_what_a_file_declares_is_declared(tmp_path: Path) -> None:
    found = specs(tmp_path, json.dumps(GPUS))
    names = ["example.com/gpu=1", "example.com/gpu=7", "example.com/nic=1", "example.com/gpu=0", "1"]
    assert found.declared(names) == ("example.com/gpu=1", "example.com/gpu=0")
    assert CdiFiles(tmp_path / "elsewhere").declared(names) == ()


def test_what_names_a_device_is_told_with_what_asked_for_it(tmp_path: Path) -> None:
    edits = {"deviceNodes": [{"path": "/dev/gpu0"}], "env": ["NVIDIA_VISIBLE_DEVICES=0"]}
    spec = {"kind": "example.com/gpu", "devices": [{"name": "0", "containerEdits": edits}]}
    found = specs(tmp_path, json.dumps(spec)).named([("example.com/gpu=0", "CDI device example.com/gpu=0")])
    assert [(name.text, name.via) for name in found] == [
        ("/dev/gpu0", "CDI device example.com/gpu=0"),
        ("0", "NVIDIA_VISIBLE_DEVICES of CDI device example.com/gpu=0"),
    ]


def test_a_device_is_what_its_own_nodes_and_variables_are_and_what_another_name_of_these_nodes_says() -> None:
    both = {"deviceNodes": [{"path": "/dev/nvidiactl"}]}
    devices = [
        {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia3"}]}},
        {"name": "1", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia1"}]}},
        {"name": "GPU-aa", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia3"}]}},
        {"name": "all", "containerEdits": {"deviceNodes": [{"path": f"/dev/nvidia{n}"} for n in (1, 3)]}},
        {"name": "mine", "containerEdits": {"env": ["NVIDIA_VISIBLE_DEVICES=GPU-bb"]}},
        {"name": "empty", "containerEdits": {"env": ["A=b"]}},
    ]
    specs = (("/etc/cdi/a.json", cdi_spec({"kind": "nvidia.com/gpu", "devices": devices, "containerEdits": both})),)
    names = [f"nvidia.com/gpu={name}" for name in ("0", "1", "mine", "empty", "9")]
    found = behind(specs, names)
    assert [[(each.kind, each.text) for each in found[name]] for name in names] == [
        [("path", "/dev/nvidia3"), ("gpu", "GPU-aa")],
        [("path", "/dev/nvidia1")],
        [("gpu", "GPU-bb")],
        [],
        [],
    ]
