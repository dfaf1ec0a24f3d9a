"""Read links between GPUs from a file: text of NVIDIA's or AMD's tools, a published word, or YAML with matrices."""

import json
import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.foreign_files.form import FileForm
from cri_proxy.yaml_fields import DocumentError, YamlField
from policies.devices.links import (
    MAX_NVLINKS,
    SELF,
    UNKNOWN,
    Link,
    LinkError,
    LinkMatrix,
    link_of,
    matrix_of,
    read_annotation,
    read_links,
    xgmi_of,
)
from sysfs.documents.forms import form, list_shape, scalar_shape
from sysfs.documents.table import Form, KeyRow, Shape, Table

T = TypeVar("T")

# The document that stands for a file of text has only this key, so that errors can name the file's own lines.
_WHOLE_FILE = "the whole file"
_YAML = re.compile(r"""(?:^|[\s{,"'])(?:nvlink|pcie|xgmi|text|options)["']?\s*:""")
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
        "what nvidia-smi topo -m, rocm-smi --showtopo, amd-smi topology or cri-proxy gpu publish prints, or nvlink:, "
        "xgmi: and pcie:",
        "cri-proxy gpu topology",
        dialect,
        _has_links,
        as_link_document,
    )
    with form.redacted(text):
        root = YamlField.only(as_link_document(text), name, dialect, "a file of links")
        if root is None:
            raise DocumentError(name, 0, "expected a matrix of links, got an empty document")
        return read_link_document(root)


def _has_links(root: YamlField) -> bool:
    """Return whether a key of links stands there, or a text of the tool."""
    fields = {key: field for key, _, field in root.rows("")} if root.is_mapping else {}
    if _WHOLE_FILE in fields:
        # Errors about the tool's text repeat words of the columns and below them. A published word has no key.
        return not _PUBLISHED.fullmatch(fields[_WHOLE_FILE].text("").strip())
    return not fields.keys().isdisjoint(row.key for row in LINKS.rows)


def _text(field: YamlField, what: str) -> LinkMatrix:
    """Return the matrix that the tool has printed, or that ``cri-proxy gpu publish`` has."""
    text = field.text(what)
    if len(text) > _MAX_CHARACTERS:
        raise field.refuse(f"{what}: {len(text)} characters; a matrix has at most {_MAX_CHARACTERS}")
    try:
        return read_annotation(text.strip()) if _PUBLISHED.fullmatch(text.strip()) else read_links(text)
    except LinkError as error:
        if what == "text":
            raise field.refuse(f"text: {error}") from None
        place = f"column {error.column}: " if error.column else ""
        raise field.refuse(f"{place}{error.sentence}", error.line) from None


def _matrix(diagonal: Mapping[str, T], parse: Callable[[str], T | None], expected: str) -> Form[list[list[T]]]:
    """Return the form of a square matrix, each row a list, or a text with spaces.

    ``diagonal`` are the words of a GPU to itself; ``parse`` returns None for a word that is none of the others.
    """

    def cell(field: YamlField, word: str, pair: str, on_diagonal: bool) -> T:
        value = diagonal.get(word) if on_diagonal else parse(word)
        if value is None:
            raise field.refuse(
                f"{pair}: expected {' or '.join(diagonal) if on_diagonal else expected}, got {word[:20]!r}"
            )
        return value

    def read(value: YamlField, what: str) -> list[list[T]]:
        found, rows = [], value.items(what)
        for i, row in enumerate(rows):
            words = [(each, word) for each in row.listed(what) for word in each.text(what).split() or [""]]
            if len(words) != len(rows):
                raise row.refuse(f"{what}: row {i} has {len(words)} words; expected one for each of {len(rows)} rows")
            found.append([cell(*each, f"{what}: GPU{i} to GPU{j}", i == j) for j, each in enumerate(words)])
        return found

    return form(read, shape=_matrix_shape)


def _matrix_shape() -> Shape:
    return list_shape(lambda: {"anyOf": [list_shape(), scalar_shape()]})


def _links(word: str) -> int | None:
    return int(word) if _NUMBER.fullmatch(word) else None


def _path(word: str) -> str | None:
    link = link_of(word)
    return None if link is None or link.nvlinks else link.pcie


_XGMI = _matrix({SELF: Link()}, xgmi_of, "XGMI, XGMI and a number of links, XGMI/ and hops, or - for none")
_NVLINKS = _matrix({SELF: 0, "0": 0}, _links, f"a number of links from 0 to {MAX_NVLINKS}")
_PATHS = _matrix({SELF: SELF}, _path, "a word like PIX or SYS, or - for none that is known")
LINKS = Table(
    lambda **given: given,
    KeyRow("nvlink", _NVLINKS, "rows of numbers of NVLinks; `X` or 0 to itself"),
    KeyRow("pcie", _PATHS, "rows of words of `nvidia-smi topo -m`: `PIX`, `NODE`, ...; `X` to itself, `-`: unknown"),
    KeyRow(
        "xgmi", _XGMI, "rows of words for XGMI: `XGMI`, `XGMI4` for four links, `XGMI/2` for two hops; `X`, `-`: none"
    ),
    KeyRow(
        "text",
        form(_text, shape=scalar_shape),
        "instead of these: what `nvidia-smi topo -m`, `rocm-smi --showtopo`, `amd-smi topology` or "
        "`cri-proxy gpu publish` prints",
    ),
    name="the document",
    ignored=("options",),
)


def read_link_document(root: YamlField) -> LinkMatrix:
    """Return the matrix of a document, which may have options of a command beside it. Raises DocumentError."""
    keys = root.entries("the document") if root.is_mapping else {}
    if _WHOLE_FILE in keys:
        return _text(keys[_WHOLE_FILE], "the file")
    fields = LINKS.fields(root)
    if ("text" in fields) == bool(fields.keys() - {"text"}):
        raise root.refuse("give nvlink:, xgmi: and pcie: (some may be missing), or text:, and not both")
    given = LINKS.made(fields)
    try:
        tables = (given.get(key, ()) for key in ("nvlink", "pcie", "xgmi"))
        return given["text"] if "text" in given else matrix_of(*tables)
    except LinkError as error:
        raise next(iter(fields.values())).refuse(error.sentence) from None


def links_value(links: LinkMatrix) -> Mapping[str, object]:
    """Return the document of a matrix: its tables, without those that say nothing."""
    order = range(max(links.indices, default=-1) + 1)
    rows = [[links.link(one, other) for other in order] for one in order]
    nvlinks = [[link.nvlinks for link in row] for row in rows]
    pcie = [[SELF if one == other else link.pcie for other, link in enumerate(row)] for one, row in enumerate(rows)]
    xgmi = [[_xgmi_word(link, one == other) for other, link in enumerate(row)] for one, row in enumerate(rows)]
    is_placed = any(link.pcie != UNKNOWN for row in rows for link in row)
    has_xgmi = any(link.xgmi for row in rows for link in row)
    found: dict[str, object] = {"nvlink": nvlinks} if any(map(any, nvlinks)) or not (is_placed or has_xgmi) else {}
    return found | ({"xgmi": xgmi} if has_xgmi else {}) | ({"pcie": pcie} if is_placed else {})


def _xgmi_word(link: Link, is_itself: bool) -> str:
    return SELF if is_itself else link.word if link.xgmi else UNKNOWN
