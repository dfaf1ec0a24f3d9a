from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.bounded_yaml import Mapping, Scalar
from cri_proxy.config.files.section_files import SectionStart, join_sections, may_be_section, trace_error
from cri_proxy.config.layouts import config_trees, normalize
from cri_proxy.errors import ConfigError

# What YAML takes into a text: no control characters, no surrogates, and no half of a mark of the byte order.
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], include_characters="\n\t", max_codepoint=0xD7FF)
)
POLICY, LOGGER = Path("/c/policy"), Path("/c/logger")


def error(line: int) -> ConfigError:
    return ConfigError("/c", line, "key", "problem")


def values(texts: list[str]) -> list[str]:
    """The sections' values in the object, as YAML reads them."""
    (tree,) = config_trees(join_sections((Path(f"/c/s{i}"), text) for i, text in enumerate(texts))[0], "f")
    data = tree.get("data") if isinstance(tree, Mapping) else None
    assert isinstance(data, Mapping)
    assert [item.key for item in data.items] == [f"s{i}" for i in range(len(texts))]
    return [item.value.text for item in data.items if isinstance(item.value, Scalar)]


@given(st.lists(TEXTS, min_size=1, max_size=3).filter(lambda texts: any(text.strip() for text in texts)))
def test_every_section_keeps_its_text_whatever_stands_in_it(texts: list[str]) -> None:
    found = values(texts)
    assert [text.splitlines() for text in map(str.rstrip, found)] == [
        text.removeprefix("\ufeff").rstrip().splitlines() for text in texts
    ]


@pytest.mark.parametrize(
    "text", ["  Active: none\n", "Active: |\n x\n", "a: b\r\nc: d\r\n", "'': \u2028x", "---\na: 1"]
)
def test_no_text_ends_its_section_before_its_end(text: str) -> None:
    assert len(values([text, "b: 1"])) == 2


def test_every_line_can_be_traced_to_its_file() -> None:
    text, parts = join_sections([(POLICY, "a: 1\nb: 2\n"), (LOGGER, "\ufeffDebug: x")])
    lines = text.splitlines()
    assert parts == (SectionStart(POLICY, 4), SectionStart(LOGGER, 8))
    assert (lines[3].strip(), lines[4].strip(), lines[7].strip()) == ("a: 1", "b: 2", "Debug: x")
    found = [trace_error(error(line), parts) for line in (3, 4, 5, 7, 8)]
    assert [(e.path, e.line) for e in found] == [
        (str(POLICY), 1), (str(POLICY), 1), (str(POLICY), 2), (str(LOGGER), 1), (str(LOGGER), 1)
    ]  # fmt: skip


@pytest.mark.parametrize("parts", [(), (SectionStart(POLICY, 4),)])
def test_an_error_without_a_line_stays_with_the_whole(parts: tuple[SectionStart, ...]) -> None:
    assert str(trace_error(error(0), parts)) == str(error(0))


def test_where_no_section_says_anything_nothing_is_said() -> None:
    assert join_sections([(POLICY, " \n"), (LOGGER, "")])[0] == ""


def test_the_object_is_a_layout_that_is_understood() -> None:
    text, _ = join_sections([(LOGGER, "Debug: x"), (POLICY, "Active: none\n")])
    plain = normalize(config_trees(text, "/c"), "/c", ())
    assert [(item.key, item.line) for item in plain.items] == [("policy", 6)]  # renamed
    assert len(plain.warnings) == 1


@pytest.mark.parametrize(
    ("name", "may"), [("policy", True), ("_x-1.y", True), (".hidden", False), ("..data", False), ("policy~", False)]
)
def test_only_names_that_a_configmap_may_have_are_sections(name: str, may: bool) -> None:
    assert may_be_section(name) is may
