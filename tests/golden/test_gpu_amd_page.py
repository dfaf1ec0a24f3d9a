import re
import subprocess
from pathlib import Path

from cri_proxy.config.load import parse_config
from cri_proxy.inventory.file import read_inventory_text
from cri_proxy.inventory.merge import with_scanned
from cri_proxy.inventory.pci import inventory_of
from policies.devices.links import read_links
from sysfs.sources import load_machine
from tests.golden.costs_page import ROOT, answered
from tests.golden.gpu_amd_page import PAGE

LINKS = ROOT / "configs" / "links" / "mi300x.txt"


def test_the_page_shows_what_its_commands_answer(tmp_path: Path) -> None:
    """After a change that was meant: ``python -m tests.golden.gpu_amd_page`` writes the answers."""
    page = PAGE.read_text()
    assert page.count("$ cri-proxy ") == 3
    assert answered(page, tmp_path) == page


def test_the_command_of_the_page_makes_an_inventory_of_links_beside_a_scan(tmp_path: Path) -> None:
    commands = re.search(r"^ *rocm-smi .*\n *\{ echo 'links:'.*$", PAGE.read_text(), re.MULTILINE)
    assert commands is not None
    file = tmp_path / "devices.yaml"
    script = commands[0].replace("rocm-smi --showtopo", f"cat {LINKS}").replace("/etc/cri-proxy", str(tmp_path))
    subprocess.run(["bash", "-ec", script], check=True)
    assert f"--links {tmp_path}/links.txt" in PAGE.read_text().replace("/etc/cri-proxy", str(tmp_path))
    assert (tmp_path / "links.txt").read_text() == LINKS.read_text()
    listed = read_inventory_text(file.read_text(), "devices.yaml")
    assert listed.links == read_links(LINKS.read_text())
    scanned = inventory_of(load_machine(str(ROOT / "configs" / "machines" / "mi300x-dpx.yaml")))
    both = with_scanned(listed, scanned)
    assert (both.links, both.devices) == (listed.links, scanned.devices)


def test_the_options_of_the_page_are_options() -> None:
    found = re.search(r"^ *(devices: \{.*\})$", PAGE.read_text(), re.MULTILINE)
    assert found is not None
    assert parse_config(found[1]).devices.scan
