"""What the page about symptoms shows is what the commands print."""

import pytest

from cri_proxy.doctor.catalog import FindingCode
from tests.golden.troubleshooting_page import PAGE, blocks, missing, printed

TEXT = PAGE.read_text()
BLOCKS = list(blocks(TEXT))
SYMPTOMS = ("Not exclusive", "On the other socket", "CreateContainerError", "NotReady", "Slower than before")


@pytest.mark.parametrize(("command", "shown"), BLOCKS, ids=[command for command, _ in BLOCKS])
def test_a_block_is_part_of_what_the_command_prints(command: str, shown: str) -> None:
    assert [] in [missing(shown, answer) for answer in printed(command)], printed(command)[0]


def test_every_symptom_has_a_command_with_its_answer() -> None:
    sections = dict(section.split("\n", 1) for section in TEXT.split("\n## ")[1:])
    assert tuple(sections) == SYMPTOMS
    assert [title for title, section in sections.items() if not list(blocks(section)) or "\n1. " not in section] == []


def test_the_findings_that_it_names_are_doctors() -> None:
    named = {
        "config-invalid",
        "runtime-socket",
        "kubelet-refuses",
        "manager-state",
        "kubelet-elsewhere",
        "cpu-affinity",
    }
    assert [code for code in named if f"`{code}`" not in TEXT] == []
    assert named <= set(map(str, FindingCode))


def test_parts_count_in_their_order_alone() -> None:
    assert missing("a\n...\nc\n", "a\nb\nc\n") == []
    assert missing("c\n...\na\n", "a\nb\nc\n") == ["a\n"]
    assert missing("a\nc\n", "a\nb\nc\n") == ["a\nc\n"]
