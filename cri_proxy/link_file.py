"""Read links between GPUs from a file: the text of ``nvidia-smi topo -m``, a published word, or YAML with matrices."""

import json
import re
from collections.abc import Mapping, Sequence

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.foreign_files.form import FileForm
from cri_proxy.yaml_fields import DocumentError, YamlField
from policies.links.annotation import read_annotation
from policies.links.matrix import MAX_NVLINKS, SELF, LinkError, LinkMatrix, matrix_of
from policies.links.text import link_of, read_links

LINK_KEYS = ("nvlink", "pcie", "text")
# The document that stands for a file of text has only this key, so that errors can name the file's own lines.
_WHOLE_FILE = "the whole file"
_YAML = re.compile(r"""(?:^|[\s{,"'])(?:nvlink|pcie|text|options)["']?\s*:""")
_PUBLISHED = re.compile(r"v\d+\.\S*")
# The matrix of 16 GPUs with as many NICs has 10 KiB.
_MAX_CHARACTERS = 1 << 20
_NUMBER = re.compile(r"0|[1-9]\d{0,2}")
_FOREIGN_SPACE = re.compile(r"(?![\x00-\x7f])\s")


def as_link_document(text: str) -> str:
    """Return a file's text as YAML: as it is with a key of the format in it, else as a document that holds it.

    >>> as_link_document("nvlink: [[0]]"), as_link_document("GPU0")
    ('nvlink: [[0]]', '{"the whole file": "GPU0"}')
    """
    if _YAML.search(text):
        return text
    # Web pages turn tabs into spaces of other kinds. Nothing else in a matrix is outside ASCII, and JSON writes that as
    # pairs that YAML does not put together.
    plain = _FOREIGN_SPACE.sub(" ", text).encode("ascii", "replace").decode()
    return json.dumps({_WHOLE_FILE: plain}) if text.strip() else ""


def read_link_text(text: str, name: str, dialect: Dialect) -> LinkMatrix:
    """Return the matrix of a file's text, of which ``name`` is the file. Raises DocumentError."""
    form = FileForm(
        "GPU links",
        "what nvidia-smi topo -m or cri-proxy gpu publish prints, or nvlink: and pcie:",
        "cri-proxy gpu topology",
        dialect,
        _has_links,
        as_link_document,
    )
    with form.redacted(text):
        roots = list(YamlField.documents(as_link_document(text), name, dialect))
        if len(roots) != 1:
            raise DocumentError(name, 0, f"expected one document, a matrix of links, got {len(roots)}")
        return read_link_document(roots[0])


def _has_links(root: YamlField) -> bool:
    """Return whether a key of links stands there, or a text of the tool."""
    fields = {key: field for key, _, field in root.rows("")} if root.is_mapping else {}
    if _WHOLE_FILE in fields:
        # Errors about the tool's text repeat words of the columns and below them. A published word has no key.
        return not _PUBLISHED.fullmatch(fields[_WHOLE_FILE].text("").strip())
    return not fields.keys().isdisjoint(LINK_KEYS)


def read_link_document(root: YamlField, beside: Sequence[str] = ()) -> LinkMatrix:
    """Return the matrix of a document, which may have other keys ``beside``. Raises DocumentError."""
    keys = root.entries("the document") if root.is_mapping else {}
    if _WHOLE_FILE in keys:
        return _of_file(keys[_WHOLE_FILE])
    given = root.mapping((*LINK_KEYS, *beside), "the document")
    matrices = [given[key] for key in ("nvlink", "pcie") if key in given]
    if ("text" in given) == bool(matrices):
        raise root.refuse("give nvlink: and pcie: (one may be missing), or text:, and not both")
    if "text" in given:
        return _of_text(given["text"])
    try:
        return matrix_of(_nvlinks(given), _paths(given))
    except LinkError as error:
        raise matrices[0].refuse(error.sentence) from None


def _of_file(field: YamlField) -> LinkMatrix:
    try:
        return _read(_bounded(field, "the file"))
    except LinkError as error:
        place = f"column {error.column}: " if error.column else ""
        raise field.refuse(f"{place}{error.sentence}", error.line) from None


def _of_text(field: YamlField) -> LinkMatrix:
    try:
        return _read(_bounded(field, "text"))
    except LinkError as error:
        raise field.refuse(f"text: {error}") from None


def _read(text: str) -> LinkMatrix:
    """Return the matrix that the tool has printed, or that ``cri-proxy gpu publish`` has. Raises LinkError."""
    return read_annotation(text.strip()) if _PUBLISHED.fullmatch(text.strip()) else read_links(text)


def _bounded(field: YamlField, what: str) -> str:
    text = field.text(what)
    if len(text) > _MAX_CHARACTERS:
        raise field.refuse(f"{what}: {len(text)} characters; a matrix has at most {_MAX_CHARACTERS}")
    return text


def _nvlinks(given: Mapping[str, YamlField]) -> Sequence[Sequence[int]]:
    """Return the NVLinks of each two GPUs, 0 on the diagonal."""
    found = []
    for i, row in enumerate(_rows(given, "nvlink")):
        numbers = []
        for j, (field, word) in enumerate(row):
            if i == j and word in (SELF, "0"):
                numbers.append(0)
                continue
            if i == j or not _NUMBER.fullmatch(word):
                expected = f"{SELF} or 0" if i == j else f"a number of links from 0 to {MAX_NVLINKS}"
                raise _wrong("nvlink", field, word, (i, j), expected)
            numbers.append(int(word))
        found.append(numbers)
    return found


def _paths(given: Mapping[str, YamlField]) -> Sequence[Sequence[str]]:
    """Return the words of the paths between each two GPUs."""
    found = []
    for i, row in enumerate(_rows(given, "pcie")):
        words = []
        for j, (field, word) in enumerate(row):
            link = link_of(word)
            if i == j and word != SELF:
                raise _wrong("pcie", field, word, (i, j), SELF)
            if i != j and (link is None or link.nvlinks):
                raise _wrong("pcie", field, word, (i, j), "a word like PIX or SYS, or - for none that is known")
            words.append(SELF if link is None else link.pcie)
        found.append(words)
    return found


def _wrong(key: str, field: YamlField, word: str, pair: tuple[int, int], expected: str) -> DocumentError:
    return field.refuse(f"{key}: GPU{pair[0]} to GPU{pair[1]}: expected {expected}, got {word[:20]!r}")


def _rows(given: Mapping[str, YamlField], key: str) -> Sequence[Sequence[tuple[YamlField, str]]]:
    """Return the words of a square matrix, each with the value that has it. A row is a list, or a text with spaces."""
    if key not in given:
        return ()
    rows = []
    for field in given[key].items(key):
        if field.is_list:
            rows.append([(cell, cell.text(key)) for cell in field.items(key)])
        else:
            rows.append([(field, word) for word in field.text(key).split()])
    for i, (field, row) in enumerate(zip(given[key].items(key), rows, strict=True)):
        if len(row) != len(rows):
            raise field.refuse(f"{key}: row {i} has {len(row)} words; expected one for each of {len(rows)} rows")
    return rows
