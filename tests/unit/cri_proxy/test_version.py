import tomllib
from importlib.metadata import version as installed
from pathlib import Path

from cri_proxy.version import version

PROJECT = Path(__file__).resolve().parents[3] / "pyproject.toml"


def test_the_version_is_the_projects_and_the_installed_ones() -> None:
    assert version() == tomllib.loads(PROJECT.read_text())["project"]["version"] == installed("cri-proxy")
