"""The product as a user installs it, with what it needs, in one folder for the guest's PYTHONPATH.

The guest has no network. Dependencies are copied from the environment that runs the tests, so what is tried there
is what is tested here; the project itself is built and installed from a copy of its sources.
"""

import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from tests.vm.rig.errors import RigError

PROJECT = "cri-proxy"
SOURCES = ("sysfs", "policies", "cri_proxy", "pyproject.toml", "README.md")
REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")


class PackagesError(RigError):
    """The guest's packages could not be gathered."""


def gather(site: Path, *, guest_python: tuple[int, int], repository: Path) -> None:
    """Fill ``site``. Raises PackagesError when this Python's packages would not load in the guest's."""
    if sys.version_info[:2] != guest_python:
        ours = "{}.{}".format(*sys.version_info[:2])
        raise PackagesError(f"the guest has Python {guest_python[0]}.{guest_python[1]}, the tests run on {ours}")
    site.mkdir(parents=True, exist_ok=True)
    for needed in closure(PROJECT):
        _copy(needed, site)
    _install_project(repository, site)


def closure(name: str) -> tuple[Distribution, ...]:
    """Everything installed that this distribution needs, itself left out; extras are not followed."""
    found: dict[str, Distribution] = {}
    waiting = [name]
    while waiting:
        for requirement in distribution(waiting.pop()).requires or ():
            match = REQUIREMENT.match(requirement)
            if match is None or "extra ==" in requirement or match[0] in found:
                continue
            try:
                found[match[0]] = distribution(match[0])
            except PackageNotFoundError:
                continue  # asked for by a marker that does not hold here
            waiting.append(match[0])
    return tuple(found[key] for key in sorted(found))


def _copy(package: Distribution, site: Path) -> None:
    installed = Path(sysconfig.get_path("platlib")).resolve()
    for file in package.files or ():
        source = Path(str(package.locate_file(file))).resolve()
        if not source.is_relative_to(installed) or not source.is_file():
            continue  # scripts and man pages
        target = site / source.relative_to(installed)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def _install_project(repository: Path, site: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "source"  # building leaves files in the source tree
        copy.mkdir()
        for source in (repository / part for part in SOURCES):
            if source.is_dir():
                shutil.copytree(source, copy / source.name, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy(source, copy)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
        done = subprocess.run(
            [*pip, "--no-build-isolation", "--no-index", "--target", str(site), str(copy)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise PackagesError(f"pip cannot install the project:\n{done.stderr[-3000:]}")
