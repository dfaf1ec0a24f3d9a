"""Measures of the house's language: phrases, words of module names, class names, crowded folders, tiny modules.

Each measure yields findings by room, a room being a package or a folder of one. ``test_language.py`` compares them with
what is still recorded as open.
"""

import ast
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from tests.house.tree import PACKAGES, ROOT, files, parsed, python_files, shown

PHRASES = (
    "nobody",
    "somebody",
    "whoever",
    "told of",
    "tell of",
    "comes to",
    "anew",
    "for ever",
    "of ours",
    "whose fault",
)
CROWDED_FOLDER_FILES = 20
TINY_MODULE_LINES = 60

_PHRASE = re.compile(rf"\b(?:{'|'.join(phrase.replace(' ', ' +') for phrase in PHRASES)})\b", re.IGNORECASE)
_QUOTES = re.compile(r"""^[A-Za-z]*(?:\"{3}|'{3}|["'])|(?:\"{3}|'{3}|["'])$""")
_TEXT_TOKENS = {"STRING", "FSTRING_MIDDLE"}
_LAYOUT_TOKENS = {"NL", "NEWLINE", "INDENT", "DEDENT", "FSTRING_START", "FSTRING_END"}

Findings = dict[str, list[str]]


def room_of(path: str) -> str:
    """The room of a file: the first two folders in the product, the first elsewhere.

    >>> room_of("cri_proxy/node/sync/resync.py"), room_of("cri_proxy/app.py"), room_of("docs/adr/0001-x.md")
    ('cri_proxy/node', 'cri_proxy', 'docs')
    """
    parts = PurePosixPath(path).parts
    return "/".join(parts[: -1 if parts[0] in PACKAGES else 1][:2]) or path


def by_room(findings: Iterator[tuple[str, str]]) -> Findings:
    """Findings, given as path and text, grouped by room."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path, finding in findings:
        found[room_of(path)].append(f"{path}: {finding}")
    return dict(found)


def spoken(path: Path) -> Iterator[str]:
    """The comments and string literals of a Python file; neighbours of one kind are joined, since phrases wrap."""
    pieces: list[str] = []
    kind = ""
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            name = tokenize.tok_name[token.type]
            if name in _LAYOUT_TOKENS:
                continue
            name = "STRING" if name in _TEXT_TOKENS else name
            if name != kind:
                yield "".join(pieces)
                pieces, kind = [], name
            if name == "STRING":
                pieces.append(_QUOTES.sub("", token.string))
            elif name == "COMMENT":
                pieces.append(token.string.lstrip("# ") + " ")
    yield "".join(pieces)


def phrases_in(text: str) -> list[str]:
    return [match.group() for match in _PHRASE.finditer(re.sub(r"\s+", " ", text))]


def phrases() -> Findings:
    """Forbidden phrases in docstrings, comments and messages of the product and its packaging, and in the pages."""
    return by_room(_phrases())


def _phrases() -> Iterator[tuple[str, str]]:
    for path in files():
        name = shown(path)
        if path.suffix == ".py" and name.startswith((*(f"{p}/" for p in PACKAGES), "packaging/")):
            texts = list(spoken(path))
        elif name == "README.md" or (name.startswith(("docs/", "changes/")) and path.suffix == ".md"):
            texts = [path.read_text()]
        elif name.startswith("packaging/") and not name.startswith("packaging/requirements/"):
            texts = [re.sub(r"^\s*#+", "", path.read_text(), flags=re.MULTILINE)]
        else:
            continue
        yield from ((name, phrase) for text in texts for phrase in phrases_in(text))


def words_of(name: str) -> list[str]:
    return [word for word in name.split("_") if word]


def glossary_words() -> set[str]:
    """The words that the glossary explains: those of the first column, and those in italics beside them."""
    text = (ROOT / "docs" / "glossary.md").read_text()
    cells = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE) + re.findall(r"(?<!\*)\*([^*\n]+)\*(?!\*)", text)
    return {word for cell in cells for word in re.findall(r"[a-z0-9]+", cell.lower())}


def is_known(word: str, known: set[str]) -> bool:
    """Whether this word, or its singular or plural, is a known one."""
    forms = {word, word.removesuffix("s"), f"{word}s", re.sub("ies$", "y", word), word.removesuffix("es")}
    return bool(forms & known)


def unknown_names(known: set[str]) -> Findings:
    """Modules and folders with a word in their name that is not a known one."""
    found = []
    for name in _product():
        parts = PurePosixPath(name).with_suffix("").parts
        own = parts[-2] if parts[-1] == "__init__" else parts[-1]
        unknown = [word for word in words_of(own) if not is_known(word, known)]
        found += [(name, word) for word in unknown]
    return by_room(iter(found))


def gerunds(allowed: set[str]) -> Findings:
    """Modules whose name ends in a word in "ing" that is no word of the field."""
    last = ((name, words_of(PurePosixPath(name).stem)[-1]) for name in _product())
    return by_room((name, word) for name, word in last if word.endswith("ing") and word not in allowed)


def repeated_classes() -> Mapping[str, list[str]]:
    """Class name to its files, for names that stand more than once in the product."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for name in _product():
        for node in ast.walk(parsed(ROOT / name)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name)
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def crowded_folders() -> Findings:
    """Folders of the product with more Python files than fit a floor; ``__init__`` is not counted."""
    counts: defaultdict[str, int] = defaultdict(int)
    for name in _product():
        counts[str(PurePosixPath(name).parent)] += not name.endswith("__init__.py")
    return by_room((f"{name}/*.py", str(count)) for name, count in counts.items() if count > CROWDED_FOLDER_FILES)


def tiny_modules() -> Findings:
    """Modules of at most TINY_MODULE_LINES that a single module of the same folder imports, and no other."""
    importers: defaultdict[str, set[str]] = defaultdict(set)
    modules = {name.removesuffix(".py").replace("/", "."): name for name in _product()}
    for name in modules.values():
        for module in _imports(parsed(ROOT / name)):
            if module in modules:
                importers[modules[module]].add(name)
    tiny = (name for name in modules.values() if len((ROOT / name).read_text().splitlines()) <= TINY_MODULE_LINES)
    alone = ((name, *importers[name]) for name in sorted(tiny) if len(importers[name]) == 1)
    return by_room((name, by) for name, by in alone if PurePosixPath(name).parent == PurePosixPath(by).parent)


def _imports(tree: ast.Module) -> Iterator[str]:
    """Every module that a file imports, late imports included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _product() -> list[str]:
    return [shown(path) for path in python_files(*PACKAGES)]
