"""The version."""

from importlib.metadata import version as installed

from cri_proxy.version import version


def test_the_version_is_the_installed_ones() -> None:
    assert version() == installed("cri-proxy")
