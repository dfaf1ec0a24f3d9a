"""The daemon as a node has it: our packages, what packaging/requirements/run.txt names, and nothing else.

The environment of development has more: import hooks for what is edited in place, and libraries that ours load where
they find them (structlog loads rich): 7 MB of resident memory that no node pays. Nothing is downloaded: what is
installed here is copied, and byte-compiled as packages are.
"""

import os
import re
import shutil
import subprocess
import venv
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("sysfs", "policies", "cri_proxy")
REQUIREMENTS = ROOT / "packaging" / "requirements" / "run.txt"


def install(directory: Path) -> Path:
    """Make such an environment in this directory; gives its ``cri-proxy``, that of packages with other paths."""
    venv.create(directory, symlinks=True)
    python, program, library = directory / "bin" / "python", directory / "bin" / "cri-proxy", directory / "cri-proxy"
    library.mkdir()
    for package in PACKAGES:
        _copy(ROOT / package, library)
    for name in re.findall(r"^([A-Za-z0-9._-]+)==", REQUIREMENTS.read_text(), re.MULTILINE):
        files = distribution(name).files or ()
        for top in sorted({file.parts[0] for file in files} - {"..", "__pycache__"}):
            _copy(Path(str(distribution(name).locate_file(top))), library)
    compiling = (str(python), str(ROOT / "packaging" / "node" / "compile.py"), str(library), "/")
    subprocess.run(compiling, check=True, env=environment() | {"PYTHONNODEBUGRANGES": "1"})
    text = (ROOT / "packaging" / "node" / "program.py").read_text()
    program.write_text(f"#!{python} -IS\n{text.replace('/usr/lib/cri-proxy', str(library))}")
    program.chmod(0o755)
    return program


def _copy(source: Path, directory: Path) -> None:
    if source.is_dir():
        shutil.copytree(
            source, directory / source.name, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True
        )
    else:
        shutil.copy(source, directory)


def environment() -> dict[str, str]:
    """Ours, with what the systemd unit sets, and free to use byte-compiled files, which packages have."""
    unit = (ROOT / "packaging" / "cri-proxy.service").read_text()
    settings = dict(setting.split("=", 1) for setting in re.findall(r"^Environment=(\S+)$", unit, re.MULTILINE))
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | settings
