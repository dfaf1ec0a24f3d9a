"""The commands of docs/recipes.md with their answers, and its recipes as data.

``python -m tests.golden.recipes_page`` writes the answers into the page after they have changed on purpose.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.golden.costs_page import ROOT, answered

PAGE = ROOT / "docs" / "recipes.md"
_BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^    \$ cri-proxy simulate (configs/recipes/\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Recipe:
    """A section of the page: the pod, our configuration, and the scenario that plays both."""

    title: str
    manifest: str
    config: str
    file: str


def recipes(page: str) -> Iterator[Recipe]:
    """Yield the sections of the page that have a pod."""
    for section in page.split("\n## ")[1:]:
        manifest, config = _BLOCK.findall(section)
        (file,) = _FILE.findall(section)
        yield Recipe(section.partition("\n")[0], manifest, config, file)


if __name__ == "__main__":
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as made:
        PAGE.write_text(answered(PAGE.read_text(), Path(made)))
