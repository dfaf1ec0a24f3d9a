"""Unpack wheels of one release for several Python versions into one directory: wheels.py DIRECTORY WHEEL...

Compiled modules carry the version in their names, so that each Python finds its own; what else two wheels share must
be the same. The metadata of a wheel itself (WHEEL, RECORD) stays out. What only builds packages is not unpacked.
"""

import sys
import zipfile
from pathlib import Path

BUILDS_ONLY = "setuptools-"
OF_THE_WHEEL = ("WHEEL", "RECORD")
UNWANTED = (".pyi", ".pyx", ".c")


def unpack(wheel: Path, directory: Path) -> None:
    """Unpack what nodes need of this wheel. Raises SystemExit where a file is there already, and another one."""
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            path = directory / name
            if name.endswith("/") or path.name in OF_THE_WHEEL or path.suffix in UNWANTED:
                continue
            content = archive.read(name)
            if path.exists() and path.read_bytes() != content:
                raise SystemExit(f"{wheel.name}: {name} is another file for another Python")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


if __name__ == "__main__":
    for each in sys.argv[2:]:
        if not Path(each).name.startswith(BUILDS_ONLY):
            unpack(Path(each), Path(sys.argv[1]))
