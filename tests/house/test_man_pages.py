"""The man pages and completion scripts that packages bring, as they are built."""

import gzip
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cri_proxy.cli.help.commands import COMMANDS, ROWS
from cri_proxy.cli.help.options import options_of
from cri_proxy.cli.help.parser import load_command
from tests.house.tree import ROOT

MAN = Path("usr/share/man/man1")


def written(directory: Path) -> dict[str, bytes]:
    script = ROOT / "packaging" / "node" / "man_pages.py"
    subprocess.run([sys.executable, script, directory], check=True, cwd=ROOT, env={"COLUMNS": "30"}, timeout=60)
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return written(tmp_path_factory.mktemp("first"))


def page_of(name: str, built: dict[str, bytes]) -> str:
    """The page as it reads, without what roff takes."""
    text = gzip.decompress(built[str(MAN / f"{'-'.join(('cri-proxy', *name.split()))}.1.gz")]).decode()
    return re.sub(r"\\f[A-Z]|\\&", "", text).replace("\\-", "-").replace("\\e", "\\")


def test_the_same_sources_give_the_same_files(built: dict[str, bytes], tmp_path: Path) -> None:
    assert written(tmp_path) == built


def test_there_is_a_page_for_the_program_and_for_each_command(built: dict[str, bytes]) -> None:
    text = page_of("", built)
    assert [name for name in COMMANDS if f".B {name}\n{ROWS[name].text}" not in text] == []
    assert len([name for name in built if name.startswith(str(MAN))]) == 1 + len(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_a_page_has_what_the_help_has(name: str, built: dict[str, bytes]) -> None:
    text = page_of(name, built)
    assert f"- {ROWS[name].text}\n" in text
    assert all(" ".join(option.text.split()) in text for option in options_of(name))
    assert all(f"{', '.join(option.names)} {option.value}".strip() in text for option in options_of(name))
    assert load_command(name).EXAMPLE in text


def test_no_line_of_a_text_is_a_request_of_roff(built: dict[str, bytes]) -> None:
    requests = re.findall(r"^\.(\w+)", "\n".join(page_of(name, built) for name in ROWS), re.MULTILINE)
    assert set(requests) == {"TH", "SH", "TP", "B", "EX", "EE", "BR", "PP"}


def test_a_package_lists_every_file_that_is_written(built: dict[str, bytes]) -> None:
    """rpmbuild refuses a file that the spec does not list; each package leaves out the directory of the other's zsh."""
    spec = (ROOT / "packaging" / "rpm" / "cri-proxy.spec").read_text()
    scripts = [name for name in built if not name.startswith(str(MAN)) and "vendor-completions" not in name]
    assert [name for name in scripts if f"\n/{name}\n" not in spec] == []
    assert f"/{MAN}/cri-proxy*.1.gz\n" in spec
