import json
from pathlib import Path

import pytest

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.link_file import as_link_document, links_value, read_link_document, read_link_text
from cri_proxy.yaml_fields import DocumentError, YamlField
from policies.devices.links import Link, LinkMatrix
from tests.fakes.amd_texts import AmdMachine, amd_smi, amd_smi_json, islands, packages, rocm_smi, rocm_smi_json
from tests.fakes.secret_files import MARK, SECRETS
from tests.unit.policies.devices.links.machines import KEP_690, kep_690

DIALECT = Dialect(1 << 20, 20, 10_000)
STORY = Path(__file__).parents[3] / "configs" / "links" / "story.yaml"


def documents(text: str) -> list[LinkMatrix]:
    return [read_link_document(root) for root in YamlField.documents(as_link_document(text), "topo", DIALECT)]


def test_a_text_is_a_document() -> None:
    assert documents(KEP_690) == [kep_690()]
    assert documents(f"\x1b[4m€ \U0001f600\x1b[0m\n{KEP_690}") == [kep_690()]
    assert documents(KEP_690.replace(" ", "\u00a0")) == [kep_690()]
    assert documents("") == []


@pytest.mark.parametrize(
    "text",
    [
        "nvlink: [[X, 2], [2, X]]\npcie: [[X, -], [-, X]]",
        'nvlink:\n- X 2\n- 2 X\npcie: ["X -", "- X"]\noptions: {size: 2}',
        '{"nvlink": [[0, 2], [2, 0]]}',
        '{"options": {}, "nvlink": [["X", "2"], ["2", "X"]]}',
        "text: |\n  GPU0 GPU1\n  GPU0 X NV2\n  GPU1 NV2 X",
        '{"text": "GPU0 GPU1\\nGPU0 X NV2\\nGPU1 NV2 X"}',
        "text: v1.0t1.ux2.v2",
        "v1.0t1.ux2.v2\n",
    ],
)
def test_a_file_has_matrices_a_text_or_a_published_word(text: str) -> None:
    (found,) = documents(text)
    assert (found.indices, found.link(0, 1)) == (frozenset({0, 1}), Link(2))


def test_a_text_that_is_no_matrix_by_its_length_is_refused() -> None:
    text = as_link_document("G" * (1 << 20) + "U")
    (root,) = YamlField.documents(text, "topo", Dialect(1 << 22, 5, 5))
    with pytest.raises(DocumentError, match="the file: 1048577 characters; a matrix has at most 1048576"):
        read_link_document(root)


def test_both_kinds_of_links_and_several_documents() -> None:
    first, second = documents(STORY.read_text())
    assert (first.link(0, 1), first.link(0, 3), first.link(0, 7)) == (Link(2, "PIX"), Link(1, "PHB"), Link(0, "SYS"))
    assert second.link(0, 1) == Link(0, "PIX")


@pytest.mark.parametrize("machine", [islands(), packages()])
def test_tables_of_amds_tools_are_a_file_of_links_in_every_form(machine: AmdMachine) -> None:
    for text in (amd_smi(machine), amd_smi_json(machine), rocm_smi(machine), rocm_smi_json(machine)):
        (found,) = documents(text)
        (again,) = documents(json.dumps(links_value(found)))
        assert again.links == found.links
        (inside,) = documents(json.dumps({"text": text}))
        assert inside == found


@pytest.mark.parametrize("word", ["XGMI0", "XGMI/1", "XGMI/10", "PCIE", "xgmi", "XGMI100"])
def test_a_word_for_xgmi_is_told_with_what_was_expected(word: str) -> None:
    with pytest.raises(DocumentError, match=f"xgmi: GPU0 to GPU1: expected XGMI, XGMI and a number .* got '{word}'"):
        documents(f'xgmi: ["X {word}", "{word} X"]')


def test_every_gpu_of_the_story_has_six_links() -> None:
    first, _ = documents(STORY.read_text())
    assert {sum(first.link(i, j).nvlinks for j in range(8)) for i in range(8)} == {6}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            KEP_690.replace("NV1    NV1    NV2", "NV1    NVX    NV2"),
            "topo:2: column 23: NVX: GPU0 to GPU2: expected one of",
        ),
        ("GPU0 GPU1\nGPU0 X NV2\nGPU1 NV1 X", "topo:3: column 6: NV1: GPU1 to GPU0, and NV2 back; expected the same"),
        ("what: [ever", "topo:1: GPU0: no such column; expected the text that nvidia-smi topo -m prints"),
        ("v1.0t1.ux2.q", "topo:1: 'q': expected links at character 1 of them"),
        ("v9.0t1", "topo:1: 'v9': expected the version v1"),
        ("options: {}", "topo:1: give nvlink:, xgmi: and pcie: (some may be missing), or text:, and not both"),
        ("nvlink: [[X]]\ntext: a", "topo:1: give nvlink:, xgmi: and pcie:"),
        ("nvlinks: [[X]]\npcie: [[X]]", "topo:1: the document: unknown key 'nvlinks'; did you mean nvlink?"),
        ("\nnvlink: [[X, 1], [2, X]]", "topo:2: NV2: GPU1 to GPU0, and NV1 back; expected the same word"),
        ("pcie: [[X, PIX],\n [PXB, X]]", "topo:1: PXB: GPU1 to GPU0, and PIX back; expected the same word"),
        ("nvlink: [[X, 1], [1]]", "topo:1: nvlink: row 1 has 1 words; expected one for each of 2 rows"),
        ("nvlink: [[X, 1],\n []]", "topo:2: nvlink: row 1 has 0 words; expected one for each of 2 rows"),
        ("nvlink: [[1]]", "topo:1: nvlink: GPU0 to GPU0: expected X or 0, got '1'"),
        (
            "nvlink: [[X, -1], [-1, X]]",
            "topo:1: nvlink: GPU0 to GPU1: expected a number of links from 0 to 999, got '-1'",
        ),
        ("nvlink: [[X, 1000], [1000, X]]", "topo:1: nvlink: GPU0 to GPU1: expected a number of links from 0 to 999"),
        ("nvlink: [[X, 010], [010, X]]", "topo:1: nvlink: GPU0 to GPU1: expected a number of links from 0 to 999"),
        ("pcie: [[X, NV2], [NV2, X]]", "topo:1: pcie: GPU0 to GPU1: expected a word like PIX or SYS, or - for none"),
        ("pcie: [[SYS]]", "topo:1: pcie: GPU0 to GPU0: expected X, got 'SYS'"),
        ("nvlink: 5", "topo:1: nvlink: expected a list, got '5'"),
        ("nvlink: [[X]]\npcie: [[X, PIX], [PIX, X]]", "topo:1: nvlink: 1 rows, and pcie has 2"),
        (
            "text: |\n  GPU0 GPU1\n  GPU0 X\n",
            "topo:1: text: line 2, column 1: GPU0: 1 words, expected one for each of 2",
        ),
    ],
)
def test_an_error_names_line_and_pair(text: str, problem: str) -> None:
    with pytest.raises(DocumentError) as caught:
        documents(text)
    assert str(caught.value).startswith(problem)


def test_the_text_of_a_file_has_the_one_matrix_of_its_node() -> None:
    assert read_link_text(KEP_690, "f", DIALECT) == kep_690()
    with pytest.raises(DocumentError, match=r"^f: expected a matrix of links, got an empty document$"):
        read_link_text("", "f", DIALECT)
    with pytest.raises(DocumentError, match=r"^f:3: another document begins here: a file of links holds one$"):
        read_link_text("nvlink: [[X]]\n---\nnvlink: [[X]]", "f", DIALECT)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nvlonk: [[X]]\nnvlink: [[X]]", "unknown key 'nvlonk'"),
        ("GPU0 GPU1\nGPU0 X NV0\nGPU1 NV0 X", "NV0: GPU0 to GPU1: expected"),
        ("secret", "GPU0: no such column"),
    ],
)
def test_a_mistake_below_a_key_or_columns_is_quoted(text: str, problem: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_link_text(text, "f", DIALECT)
    assert problem in caught.value.problem
    assert "secret" not in caught.value.problem


@pytest.mark.parametrize("name", SECRETS)
def test_of_a_file_without_links_nothing_is_repeated(name: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_link_text(SECRETS[name], "f", DIALECT)
    assert MARK not in str(caught.value)
