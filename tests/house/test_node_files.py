"""What a node gets, whatever brings it: the start of the program, wheels of all Pythons, the image of the agent."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import files
from pathlib import Path

import pytest

from tests.house.tree import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMAGE = ROOT / "packaging" / "image"


def test_the_image_stands_on_a_bare_name_and_only_compiles_while_it_is_built() -> None:
    lines = (IMAGE / "Dockerfile").read_text().splitlines()
    words = [line.split() for line in lines if line and not line.startswith("#")]
    assert words[:2] == [["ARG", "BASE"], ["FROM", "${BASE}"]]
    assert [word[0] for word in words[2:]] == ["COPY", "ENV", "RUN", "ENTRYPOINT"]
    assert "compile.py" in " ".join(words[4])
    (base,) = (line.split() for line in (IMAGE / "base").read_text().splitlines() if not line.startswith("#"))
    assert re.fullmatch(r"python:3\.1[1-4]\.\d+-slim-[a-z]+", base[0])
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", base[1])


IN_THE_IMAGE = (
    "usr/bin/cri-proxy",
    "usr/lib/cri-proxy/Apache-2.0",
    "usr/lib/cri-proxy/cri_proxy/module.py",
    "usr/share/doc/cri-proxy/sbom.cdx.json",
)
RELEASE = subprocess.run(
    [sys.executable, ROOT / "packaging" / "node" / "release.py"], check=True, capture_output=True, text=True
).stdout.strip()


@pytest.fixture(scope="module")
def packaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a package as small as can be, laid out as ours."""
    directory = tmp_path_factory.mktemp("dist")
    control = directory / "root" / "DEBIAN" / "control"
    control.parent.mkdir(parents=True)
    version = PROJECT["version"]
    control.write_text(f"Package: cri-proxy\nVersion: {version}\nArchitecture: all\nMaintainer: x\nDescription: x\n")
    for name in (*IN_THE_IMAGE, "usr/share/doc/page.md"):
        file = directory / "root" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text((ROOT / "packaging" / "node" / "cri-proxy").read_text())
    architecture = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True).stdout
    package = directory / f"cri-proxy_{RELEASE}_{architecture.strip()}.deb"
    subprocess.run(["dpkg-deb", "--build", directory / "root", package], check=True, capture_output=True)
    return directory


def test_an_environment_has_the_text_of_the_licence_where_its_notice_says() -> None:
    assert "structlog-*.dist-info/licenses/LICENSE-APACHE" in (ROOT / "LICENSE").read_text()
    (text,) = (file.read_text() for file in files("structlog") or () if file.name == "LICENSE-APACHE")
    assert " ".join(text.split()).startswith("Apache License Version 2.0, January 2004")
    assert "END OF TERMS AND CONDITIONS" in text


def build_image(directory: Path, builder: Path | str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CRI_PROXY_BUILDER": str(builder)}
    command = [IMAGE / "build.sh", directory]
    return subprocess.run(command, check=False, env=environment, capture_output=True, text=True)


def test_the_image_is_built_of_the_package_and_of_nothing_else(packaged: Path) -> None:
    builder = packaged / "builder"
    builder.write_text(f'#!/bin/sh\necho "$@" >>{packaged}/asked\n')
    builder.chmod(0o755)
    done = build_image(packaged, builder)
    name, context = f"cri-proxy:{PROJECT['version']}", packaged / "image"
    assert (packaged / "asked").read_text() == f"info\nbuild --tag {name} {context}\n"
    assert f"save {name} | ctr" in done.stdout
    laid_out = sorted(str(path.relative_to(context)) for path in context.rglob("*") if path.is_file())
    assert laid_out == ["Dockerfile", *(f"root/{name}" for name in IN_THE_IMAGE)]
    base = r"\nARG BASE=python:3\.\d+\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}\n"
    assert re.search(base, (context / "Dockerfile").read_text())
    started = context / "root" / "usr" / "bin" / "cri-proxy"
    assert "/usr/bin/" not in started.read_text().replace("/usr/local/bin/", "")
    assert started.stat().st_mode & 0o777 == 0o755


def test_where_nothing_can_build_the_image_that_is_said_and_what_is_left_to_do(packaged: Path) -> None:
    done = build_image(packaged, "false nothing-of-this-name")
    assert done.returncode == 1
    assert "image: none of false nothing-of-this-name works here. On a machine where one does:" in done.stderr
    assert f"docker build --tag cri-proxy:{PROJECT['version']} {packaged / 'image'}\n" in done.stderr


def test_without_a_package_it_is_said_how_to_build_one(tmp_path: Path) -> None:
    done = build_image(tmp_path, "true")
    assert (done.returncode, "build it with `make deb`" in done.stderr) == (1, True)


def started_with(tmp_path: Path, default: str, *present: str) -> subprocess.CompletedProcess[str]:
    """Start the launcher where ``/usr/bin`` has these Pythons; each prints its own name."""
    places = tmp_path / "bin"
    places.mkdir()
    for name in present:
        (places / name).write_text(f"#!/bin/sh\necho {name} $@\n")
        (places / name).chmod(0o755)
    if default:
        (places / "python3").symlink_to(default)
    text = (ROOT / "packaging" / "node" / "cri-proxy").read_text().replace("/usr/bin", str(places))
    (tmp_path / "cri-proxy").write_text(text)
    return subprocess.run(["sh", tmp_path / "cri-proxy", "status"], check=False, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("default", "present", "chosen"),
    [
        ("python3.11", ("python3.11", "python3.13"), "python3.11"),
        ("/usr/bin/python3.12", ("python3.12",), "python3.12"),
        ("python3.9", ("python3.9", "python3.11", "python3.12"), "python3.12"),
        ("python3.15", ("python3.15", "python3.14"), "python3.14"),
        ("", ("python3.13",), "python3.13"),
    ],
)
def test_the_program_starts_on_a_python_that_its_packages_fit(
    tmp_path: Path, default: str, present: tuple[str, ...], chosen: str
) -> None:
    assert started_with(tmp_path, default, *present).stdout == f"{chosen} -IS /usr/lib/cri-proxy/cri-proxy status\n"


def test_without_any_it_names_the_ways_to_one(tmp_path: Path) -> None:
    done = started_with(tmp_path, "python3.9", "python3.9", "python3.15")
    assert done.returncode == 2
    assert "needs Python 3.11 to 3.14" in done.stderr and "dnf install python3.12" in done.stderr


def test_wheels_of_several_pythons_become_one_directory(tmp_path: Path) -> None:
    program = ROOT / "packaging" / "node" / "wheels.py"

    def wheel(name: str, files: dict[str, str]) -> Path:
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for path, text in files.items():
                archive.writestr(path, text)
        return tmp_path / name

    same = {"a/__init__.py": "1", "a/x.pyi": "", "a-1.dist-info/METADATA": "m"}
    one = wheel("a-1-cp311.whl", same | {"a/c.cpython-311.so": "11", "a-1.dist-info/WHEEL": "11"})
    other = wheel("a-1-cp312.whl", same | {"a/c.cpython-312.so": "12", "a-1.dist-info/WHEEL": "12"})
    builder = wheel("setuptools-1.whl", {"setuptools/__init__.py": ""})
    target = tmp_path / "lib"
    subprocess.run([sys.executable, program, target, one, other, builder], check=True)
    found = sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())
    assert found == ["a-1.dist-info/METADATA", "a/__init__.py", "a/c.cpython-311.so", "a/c.cpython-312.so"]
    differs = wheel("a-1-cp313.whl", {"a/__init__.py": "3"})
    done = subprocess.run([sys.executable, program, target, differs], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "a-1-cp313.whl: a/__init__.py is another file for another Python\n")


def test_builds_between_releases_sort_by_time_and_before_the_release() -> None:
    pattern = rf"{re.escape(PROJECT['version'])}(~git\d{{14}}\.[0-9a-f]{{12}})?-1"
    assert re.fullmatch(pattern, RELEASE)
    earlier, later = "0.1.0~git20261128211500.ff-1", "0.1.0~git20261128211501.00-1"
    for one, other in ((earlier, later), (later, "0.1.0-1")):
        subprocess.run(["dpkg", "--compare-versions", one, "lt", other], check=True)
