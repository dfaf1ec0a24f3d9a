import json
from pathlib import Path

import pytest

from cri_proxy.cri.cdi.variables import MAX_VARIABLES, Variables
from cri_proxy.device_files.cdi import CdiFiles

PREFIX = "DRA_CPUSET_"
KIND = "dra.k8s.io/cpu"


def device(name: str, *env: str) -> dict[str, object]:
    return {"name": name, "containerEdits": {"env": list(env)}}


def spec(*devices: object, env: tuple[str, ...] = ()) -> str:
    tree = {"cdiVersion": "0.8.0", "kind": KIND, "devices": list(devices)}
    return json.dumps(tree | ({"containerEdits": {"env": list(env)}} if env else {}))


class Specs:
    """The variables with the prefix in the files below a root."""

    def __init__(self, root: Path) -> None:
        self._files = CdiFiles(root)

    def of(self, names: list[str]) -> Variables:
        return self._files.variables(names, PREFIX)[0]

    def files(self) -> tuple[str, ...]:
        return self._files.with_variables(PREFIX)


def specs(root: Path, text: str, name: str = "var/run/cdi/cpu.json") -> Specs:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)
    return Specs(root)


def test_a_device_gives_its_variables_and_those_of_the_whole_file(tmp_path: Path) -> None:
    found = specs(tmp_path, spec(device("a", "DRA_CPUSET_a=0-3", "PATH=/x"), env=("DRA_CPUSET_all=9",)))
    assert found.of([f"{KIND}=a"]) == (("DRA_CPUSET_a", "0-3"), ("DRA_CPUSET_all", "9"))


def test_several_devices_give_all_of_theirs_and_unknown_ones_none(tmp_path: Path) -> None:
    found = specs(tmp_path, spec(device("a", "DRA_CPUSET_a=0"), device("b", "DRA_CPUSET_b=1")))
    assert dict(found.of([f"{KIND}=b", f"{KIND}=a", f"{KIND}=c", "other.com/cpu=a"])) == {
        "DRA_CPUSET_a": "0",
        "DRA_CPUSET_b": "1",
    }


def test_var_run_comes_before_etc(tmp_path: Path) -> None:
    specs(tmp_path, spec(device("a", "DRA_CPUSET_a=0")), "etc/cdi/cpu.json")
    found = specs(tmp_path, spec(device("a", "DRA_CPUSET_a=5")))
    assert found.of([f"{KIND}=a"]) == (("DRA_CPUSET_a", "5"),)


def test_a_device_that_adds_none_hides_one_of_the_weaker_directory(tmp_path: Path) -> None:
    specs(tmp_path, spec(device("a", "DRA_CPUSET_a=0")), "etc/cdi/cpu.json")
    found = specs(tmp_path, spec(device("a", "PATH=/x")))
    assert found.of([f"{KIND}=a"]) == ()
    assert found.files() == ("/etc/cdi/cpu.json",)


@pytest.mark.parametrize(
    ("text", "has_some"),
    [
        (spec(device("a"), device("b", "DRA_CPUSET_b=0")), True),
        (spec(device("a"), env=("DRA_CPUSET_all=0",)), True),
        (spec(env=("DRA_CPUSET_all=0",)), False),
        (spec(device("a")), False),
    ],
)
def test_files_are_named_of_which_a_device_adds_some(tmp_path: Path, text: str, *, has_some: bool) -> None:
    assert specs(tmp_path, text).files() == (("/var/run/cdi/cpu.json",) if has_some else ())


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    found = specs(tmp_path, spec(device("a", "DRA_CPUSET_a=0")))
    found.of([f"{KIND}=a"])
    specs(tmp_path, spec(device("a", "DRA_CPUSET_a=0-15")))
    assert found.of([f"{KIND}=a"]) == (("DRA_CPUSET_a", "0-15"),)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"kind": 3, "devices": []}',
        '{"kind": "dra.k8s.io/cpu", "devices": 3}',
        json.dumps({"devices": [device("a", "DRA_CPUSET_a=0")]}),
        spec({**device("", "DRA_CPUSET_a=0"), "name": None}),
        '{"kind": "dra.k8s.io/cpu", "devices": [3, {"name": {}}]}',
        spec({"name": "a", "containerEdits": []}),
        spec({"name": "a", "containerEdits": {"env": "DRA_CPUSET_a=0"}}),
        spec({"name": "a", "containerEdits": {"env": [3, None, "DRA_CPUSET"]}}),
    ],
)
def test_garbage_gives_none(tmp_path: Path, text: str) -> None:
    assert specs(tmp_path, text).of([f"{KIND}=a", "None=a", f"{KIND}=None"]) == ()


def test_a_variable_without_a_value_is_an_empty_one(tmp_path: Path) -> None:
    assert specs(tmp_path, spec(device("a", "DRA_CPUSET_a"))).of([f"{KIND}=a"]) == (("DRA_CPUSET_a", ""),)


def test_a_name_that_is_too_long_is_left_out(tmp_path: Path) -> None:
    longest = PREFIX.ljust(256, "x")
    found = specs(tmp_path, spec(device("a", f"{longest}=1", f"{longest}x=2")))
    assert found.of([f"{KIND}=a"]) == ((longest, "1"),)


def test_a_container_gets_a_bounded_number(tmp_path: Path) -> None:
    many = (f"DRA_CPUSET_{n}=0" for n in range(2 * MAX_VARIABLES))
    assert len(specs(tmp_path, spec(device("a", *many))).of([f"{KIND}=a"])) == MAX_VARIABLES
