"""No error about a file in which no key is understood has a word of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.costs.merge import merge
from cri_proxy.in_force.text_files import FoundFiles, TextFile
from cri_proxy.inventory.merge import InventoryFile
from cri_proxy.link_file import read_link_text
from cri_proxy.yaml_fields import DocumentError
from tests.fakes.secret_files import MARK, SECRETS

DIALECT = Dialect(1 << 20, max_depth=20, max_nodes=10_000, has_aliases=True)
# Without digits, so that no cost and no column of a matrix comes of it.
PIECES = [MARK, f"{MARK}word", ":", ": ", "\n", "\n  ", " ", "\n- ", "[", "]", "{", "}", "'", '"', "/", ",", "\t", "|"]
PIECES += ["*", "&", "!", "#", "%", "=", "\n---\n", "kind: ", "spec: ", "options: ", "v1.", "\x01", "\u2028"]


def problems(text: str) -> Iterator[str]:
    found = FoundFiles(Path("/d"), (TextFile("f", text),))
    yield from (file.problem for file in merge(found, {}).files)
    yield from (file.problem for file in InventoryFile(found.path).judge(found, {}).files)
    try:
        read_link_text(text, "f", DIALECT)
    except DocumentError as error:
        yield str(error)


@pytest.mark.parametrize("name", SECRETS)
def test_of_a_secret_file_nothing_is_repeated(name: str) -> None:
    told = list(problems(SECRETS[name]))
    assert len(list(filter(None, told))) == 3
    assert MARK not in "".join(told)


@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
def test_of_any_text_without_a_known_key_nothing_is_repeated(text: str) -> None:
    assert MARK not in "".join(problems(text))
