"""Print the version of what is built here, with its release: 0.1.0-1.

Between releases it names the commit, and sorts by its time and before the release that follows:
0.1.0~git20261128211500.0a1b2c3d4e5f-1. A release is a commit with the tag vVERSION. The environment's RELEASE counts
builds of the same sources.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def git(*arguments: str) -> str:
    """Return what git prints, times in UTC; '' without a repository."""
    command = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, "TZ": "UTC"})
    return done.stdout.strip()


def release() -> str:
    """Return the version, sorted by dpkg and rpm as it came to be."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    of_commit = git(
        "show", "--no-patch", "--format=~git%cd.%h", "--date=format-local:%Y%m%d%H%M%S", "--abbrev=12", "HEAD"
    )
    between = "" if f"v{version}" in git("tag", "--points-at", "HEAD").split() else of_commit
    return f"{version}{between}-{os.environ.get('RELEASE', '1')}"


if __name__ == "__main__":
    sys.stdout.write(f"{release()}\n")
