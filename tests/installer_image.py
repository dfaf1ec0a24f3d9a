"""The installer's image as ``make installer`` builds it, for the stages that look into it or install with it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILD_SECONDS = 600.0


def build_image(directory: Path, *architecture: str) -> Path:
    """Return the archive, built in this directory. Without root or a program that it takes: skip, in CI fail."""
    absent = [name for name in ("patchelf", "apt-get", "dpkg-deb") if not shutil.which(name)]
    if absent or os.geteuid() != 0:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"needs root and: {' '.join(absent)}")
    command: list[Path | str] = [ROOT / "packaging" / "installer" / "build.sh", directory, *architecture]
    subprocess.run(command, check=True, cwd=ROOT, timeout=BUILD_SECONDS)
    (archive,) = directory.glob("cri-proxy-installer_*.oci.tar")
    return archive
