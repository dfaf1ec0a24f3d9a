"""A Python environment as a node has it: our packages, what packaging/requirements/run.txt names, and nothing else.

The environment of development has more: import hooks for what is edited in place, and libraries that ours load where
they find them (structlog loads rich): 7 MB of resident memory that no node pays. Nothing is downloaded: what is
installed here is linked into an empty environment.
"""

import re
import venv
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("sysfs", "policies", "cri_proxy")
REQUIREMENTS = ROOT / "packaging" / "requirements" / "run.txt"


def install(directory: Path) -> Path:
    """Make such an environment in this directory; gives its Python."""
    venv.create(directory, symlinks=True)
    (site,) = (directory / "lib").glob("python*/site-packages")
    for package in PACKAGES:
        (site / package).symlink_to(ROOT / package)
    for name in re.findall(r"^([A-Za-z0-9._-]+)==", REQUIREMENTS.read_text(), re.MULTILINE):
        files = distribution(name).files or ()
        for top in sorted({file.parts[0] for file in files} - {"..", "__pycache__"}):
            where = Path(str(distribution(name).locate_file(top)))
            if not (site / top).exists():
                (site / top).symlink_to(where)
    return directory / "bin" / "python"
