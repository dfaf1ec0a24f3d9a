"""The matrix of a node as one short word, for an annotation or a few labels of the node: written, read, cut, joined.

The text of ``nvidia-smi topo -m`` has lines and spaces, which a label may not have, and is twenty times as long. In
``v1.0t3.n0x2n1x2.v12sx4v12`` stand, with dots between: the version; the GPUs, ``0t3`` for 0 to 3 and ``a`` between
parts; the NUMA nodes of each, ``n0a1`` for 0 and 1 and ``u`` where they are unknown; and the link of each pair, those
of the first GPU first: ``v12`` for NV12, ``g4`` for four XGMI links, ``j2`` for XGMI over two hops, or a letter. ``x4``
behind a node or link: it stands four times.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import combinations, groupby
from typing import Final

from policies.devices.links.matrix import UNKNOWN, Link, LinkError, LinkMatrix, MatrixGpu
from sysfs.cpuset import NodeSet

ANNOTATION: Final = "cri-proxy.io/gpu-links"
"""The annotation of a node that has the word."""
LABEL_DOMAIN: Final = "gpu-links.cri-proxy.io"
"""The labels of a node that have the word in pieces: this, a slash, and the number of the piece."""
MAX_PUBLISHED_GPUS: Final = 32
"""Hosts have 16 GPUs today."""

_VERSION: Final = "v1"
_NONE: Final = "none"
_LETTERS: Final = {"SYS": "s", "NODE": "n", "PHB": "h", "PXB": "m", "PIX": "p", "PSB": "b", UNKNOWN: "u"}
_WORDS: Final = {letter: word for word, letter in _LETTERS.items()}
_TIMES: Final = r"(?:x([1-9]\d{0,3}))?"
_PLACES: Final = re.compile(rf"(u|n\d{{1,4}}(?:a\d{{1,4}})*){_TIMES}")
_LINKS: Final = re.compile(rf"(v[1-9]\d{{0,2}}|g[1-9]\d?|j[2-9]|[{''.join(_WORDS)}]){_TIMES}")
_RUN: Final = re.compile(r"(0|[1-9]\d{0,3})(?:t([1-9]\d{0,3}))?")
_GPUS: Final = "expected numbers of GPUs, ascending, like 0t7, or 0t3a5 for 0 to 3 and 5"
_PAIRS: Final = MAX_PUBLISHED_GPUS * (MAX_PUBLISHED_GPUS - 1) // 2
# The longest token, v999, for each pair, and room for GPUs and nodes.
_MAX_CHARACTERS: Final = 4 * _PAIRS + 4096
# Source: kubernetes.io/docs/concepts/overview/working-with-objects/labels, "Syntax and character set".
_LABEL_CHARACTERS: Final = 63


def link_annotation(matrix: LinkMatrix) -> str:
    """Return the word for a matrix: GPUs with their NUMA nodes, and the printed link of each pair; no NICs, no CPUs.

    The same GPUs and links give the same word. Raises LinkError for more than MAX_PUBLISHED_GPUS.
    """
    gpus = sorted(matrix.gpus, key=lambda gpu: gpu.index)
    if len(gpus) > MAX_PUBLISHED_GPUS:
        problem = f"{len(gpus)} GPUs; at most {MAX_PUBLISHED_GPUS} are published: name them with --available"
        raise LinkError(0, 0, gpus[MAX_PUBLISHED_GPUS].name, problem)
    if not gpus:
        return f"{_VERSION}.{_NONE}"
    places = [f"n{'a'.join(map(str, gpu.nodes))}" if gpu.nodes else "u" for gpu in gpus]
    links = [_token(matrix.link(one.index, other.index)) for one, other in combinations(gpus, 2)]
    parts = (_VERSION, _listed([gpu.index for gpu in gpus]), _runs(places), *([_runs(links)] if links else []))
    return ".".join(parts)


def read_annotation(text: str) -> LinkMatrix:
    """Return the matrix of a word. Raises LinkError for anything else, another version among it.

    >>> read_annotation("v1.0t1.n0x2.v12").link(1, 0).word
    'NV12'
    """
    if len(text) > _MAX_CHARACTERS:
        raise _wrong(text, f"{len(text)} characters; {MAX_PUBLISHED_GPUS} GPUs need at most {_MAX_CHARACTERS}")
    version, *parts = text.split(".")
    if version != _VERSION:
        raise _wrong(version, f"expected the version {_VERSION}; publish the matrix with cri-proxy gpu publish")
    if parts == [_NONE]:
        return LinkMatrix((), (), {})
    if not 2 <= len(parts) <= 3:
        raise _wrong(text, f"{len(parts)} parts behind the version; expected GPUs, NUMA nodes and links")
    indices = _gpus(parts[0])
    places = _tokens(_PLACES, parts[1], len(indices), "NUMA nodes")
    links = _tokens(_LINKS, "".join(parts[2:]), len(indices) * (len(indices) - 1) // 2, "links")
    gpus = tuple(MatrixGpu(index, _nodes(place)) for index, place in zip(indices, places, strict=True))
    found: dict[tuple[str, str], Link] = {}
    for (one, other), token in zip(combinations(gpus, 2), links, strict=True):
        found[one.name, other.name] = found[other.name, one.name] = _link(token)
    return LinkMatrix(gpus, (), found)


def label_pieces(word: str) -> tuple[str, ...]:
    """Return the word in pieces that are values of labels: short, and beginning and ending with a letter or digit.

    >>> label_pieces("v1.0t1.n0x2.v12")
    ('v1.0t1.n0x2.v12',)
    """
    pieces = []
    while len(word) > _LABEL_CHARACTERS:
        end = _LABEL_CHARACTERS
        # Neither may this piece end with a dot nor the next one begin with it.
        while "." in word[end - 1 : end + 1]:
            end -= 1
        pieces.append(word[:end])
        word = word[end:]
    return (*pieces, word)


def labels_of(word: str) -> dict[str, str]:
    """Return the labels that have a word, by name."""
    return {f"{LABEL_DOMAIN}/{i}": piece for i, piece in enumerate(label_pieces(word))}


def joined_labels(labels: Mapping[str, str]) -> str:
    """Return the word that a node's labels have; empty where there is none. Labels of others are passed over.

    >>> joined_labels({"gpu-links.cri-proxy.io/1": "x2.v12", "gpu-links.cri-proxy.io/0": "v1.0t1.n0"})
    'v1.0t1.n0x2.v12'
    """
    pieces: list[str] = []
    while (piece := labels.get(f"{LABEL_DOMAIN}/{len(pieces)}")) is not None:
        pieces.append(piece)
    return "".join(pieces)


def _token(link: Link) -> str:
    if link.xgmi:
        return f"j{link.xgmi_hops}" if link.xgmi_hops > 1 else f"g{link.xgmi}"
    return f"v{link.nvlinks}" if link.nvlinks else _LETTERS[link.pcie]


def _link(token: str) -> Link:
    match token[0]:
        case "v":
            return Link(int(token[1:]))
        case "g":
            return Link(xgmi=int(token[1:]))
        case "j":
            return Link(xgmi=1, xgmi_hops=int(token[1:]))
        case _:
            return Link(pcie=_WORDS[token])


def _nodes(place: str) -> NodeSet:
    return NodeSet() if place == "u" else NodeSet.of(map(int, place[1:].split("a")))


def _runs(tokens: Sequence[str]) -> str:
    """Return tokens with a count behind each that stands several times in a row."""
    counted = ((token, len(tuple(same))) for token, same in groupby(tokens))
    return "".join(f"{token}x{count}" if count > 1 else token for token, count in counted)


def _tokens(form: re.Pattern[str], text: str, count: int, what: str) -> list[str]:
    """Return the tokens of a part, which must be so many."""
    found: list[str] = []
    at = 0
    while at < len(text):
        token = form.match(text, at)
        if token is None:
            raise _wrong(text[at:], f"expected {what} at character {at + 1} of them")
        if len(found) + int(token[2] or 1) > count:
            raise _wrong(text, f"more {what} than {count}, which the GPUs have")
        found += [token[1]] * int(token[2] or 1)
        at = token.end()
    if len(found) < count:
        raise _wrong(text or "nothing", f"{len(found)} {what}; expected {count}, which the GPUs have")
    return found


def _listed(indices: Sequence[int]) -> str:
    """Return ascending numbers as runs: 0t3a5 for 0, 1, 2, 3 and 5."""
    runs = [[index for _, index in same] for _, same in groupby(enumerate(indices), key=lambda at: at[1] - at[0])]
    return "a".join(f"{run[0]}t{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _gpus(text: str) -> list[int]:
    indices: list[int] = []
    for part in text.split("a"):
        run = _RUN.fullmatch(part)
        if run is None:
            raise _wrong(part, _GPUS)
        first, last = int(run[1]), int(run[2] or run[1])
        if last < first or (indices and first <= indices[-1]):
            raise _wrong(part, _GPUS)
        if len(indices) + last - first >= MAX_PUBLISHED_GPUS:
            raise _wrong(part, f"more than {MAX_PUBLISHED_GPUS} GPUs; at most {MAX_PUBLISHED_GPUS} are read")
        indices += range(first, last + 1)
    return indices


def _wrong(token: str, problem: str) -> LinkError:
    return LinkError(0, 0, repr(token[:20]), problem)
