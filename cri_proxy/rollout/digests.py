"""Find the configuration that the daemon of another node reports in force once it has taken these files. Pure."""

from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from cri_proxy.config.files.location import GROUP_FILE
from cri_proxy.config.files.section_files import REQUIRED_SECTION, join_sections, may_be_section
from cri_proxy.config.layouts import file_names, is_whole
from cri_proxy.config.node_group import group_of_labels
from cri_proxy.kube_api.nodes import ListedNode


def expected_of(node: ListedNode, files: Mapping[str, bytes]) -> tuple[str, str]:
    """Return the file that applies on this node, '' for none, and its digest; as ``ConfigLocation.read`` has them.

    Where files are the sections of one configuration, they are named by the section that each has.
    """
    group = ""
    with suppress(ValueError):  # the node's own agent then keeps the last group, and its digest tells
        group = group_of_labels(node.labels)
    name = next((name for name in file_names(node.name, group) if name in files), "")
    if name:
        return name, sha256(files[name]).hexdigest()
    sections = sorted(name for name in files if name != GROUP_FILE and may_be_section(name))
    if REQUIRED_SECTION not in sections or any(map(is_whole, sections)):
        return "", ""
    text, _ = join_sections((Path(name), files[name].decode(errors="replace")) for name in sections)
    return REQUIRED_SECTION, sha256(text.encode()).hexdigest()


def digest_of_all(files: Mapping[str, bytes]) -> str:
    """Return what names this content of the ConfigMap: a SHA-256 over its keys and the digests of their values."""
    found = sha256()
    for name in sorted(files):
        found.update(f"{name}\0{sha256(files[name]).hexdigest()}\n".encode())
    return found.hexdigest()
