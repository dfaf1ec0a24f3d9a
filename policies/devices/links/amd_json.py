"""Read what ``amd-smi topology --json`` and ``rocm-smi --showtopo --json`` print."""

import json
import re
from collections.abc import Mapping
from itertools import combinations
from typing import Final

from policies.devices.links.amd import PCI_ADDRESS, AmdCell, AmdTable, AmdTopology, Pair
from policies.devices.links.matrix import MAX_DEVICES, LinkError, LinkMatrix, MatrixGpu
from sysfs.cpuset import NodeSet

_BEGIN: Final = re.compile(r"\s*(?:\[\s*[\[{\]]|\{\s*\")")
_FIELDS: Final = {
    AmdTable.TYPES: "link_type",
    AmdTable.HOPS: "num_hops",
    AmdTable.WEIGHTS: "weight",
    AmdTable.BANDWIDTHS: "bandwidth",
}
# Before ROCm 6.3 a mapping for each table, with a key for each GPU.
_FORMER_FIELDS: Final = {
    AmdTable.TYPES: "link_type",
    AmdTable.HOPS: "hops",
    AmdTable.WEIGHTS: "weight",
    AmdTable.BANDWIDTHS: "numa_bandwidth",
}
_NAMES: Final = {
    AmdTable.TYPES: "(Topology) Link type between DRM devices",
    AmdTable.HOPS: "(Topology) Hops between DRM devices",
    AmdTable.WEIGHTS: "(Topology) Weight between DRM devices",
}
_TABLES: Final = {words: table for table, words in _NAMES.items()}
_PAIR: Final = re.compile(r"(.*) (0|[1-9]\d{0,3}) and (0|[1-9]\d{0,3})", re.ASCII)
_CARD: Final = re.compile(r"card(0|[1-9]\d{0,3})", re.ASCII)
_NODE_NAMES: Final = ("(Topology) Numa Affinity", "(Topology) Numa Node")
_SAVE: Final = "save all that amd-smi topology --json or rocm-smi --showtopo --json prints to a file"


def read_amd_json(text: str) -> LinkMatrix | None:
    """Return the matrix of a JSON document of AMD's tools; None for a text that is no JSON. Raises LinkError."""
    if not _BEGIN.match(text):
        return None
    try:
        found: object = json.loads(text, object_pairs_hook=_once)
    except (json.JSONDecodeError, RecursionError) as error:
        line, column = (error.lineno, error.colno) if isinstance(error, json.JSONDecodeError) else (0, 0)
        raise LinkError(line, column, "JSON", f"it does not parse; {_SAVE}") from None
    if not isinstance(found, list):
        return _of_rocm_smi(found).matrix()
    is_former = any(isinstance(entry, dict) and "numa_bandwidth" in entry for entry in found)
    return (_of_former_amd_smi(found) if is_former else _of_amd_smi(found)).matrix()


def _once(fields: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object. Raises LinkError for a key that stands twice, of which JSON would take the last."""
    found = dict(fields)
    if len(found) < len(fields):
        names = [name for name, _ in fields]
        raise _wrong(next(name for name in names if names.count(name) > 1), "the key stands twice")
    return found


def _of_amd_smi(entries: list[object]) -> AmdTopology:
    """Return what a list with an object for each GPU tells, with its links to all."""
    gpus = [MatrixGpu(_number(entry, "gpu"), address=_address(entry)) for entry in entries]
    _check_names([gpu.name for gpu in gpus])
    names = {gpu.name: gpu.address for gpu in gpus}
    tables: dict[AmdTable, dict[Pair, AmdCell]] = {table: {} for table in _FIELDS}
    for gpu, entry in zip(gpus, entries, strict=True):
        links = _field(entry, "links")
        if not isinstance(links, list):
            raise _wrong("links", f"of {gpu.name}: expected a list")
        there = [f"GPU{_number(link, 'gpu')}" for link in links]
        if sorted(there) != sorted(names):
            raise _wrong("links", f"of {gpu.name}: {len(there)}; expected one to each of {len(names)} GPUs")
        for other, link in zip(there, links, strict=True):
            if _address(link) != names[other]:
                raise _wrong(_address(link), f"the bdf of {other} at {gpu.name}, and {names[other]} is its own")
            for table, field in _FIELDS.items():
                tables[table][gpu.name, other] = AmdCell(_text(link, field))
    return AmdTopology(sorted(gpus, key=lambda gpu: gpu.index), tables)


def _of_former_amd_smi(entries: list[object]) -> AmdTopology:
    """Return what a list with an object for each GPU tells, with a mapping by GPU for each table."""
    gpus = [MatrixGpu(_number(entry, "gpu"), address=_address_or_none(entry)) for entry in entries]
    _check_names([gpu.name for gpu in gpus])
    keys = {f"gpu_{gpu.index}": gpu.name for gpu in gpus}
    tables: dict[AmdTable, dict[Pair, AmdCell]] = {table: {} for table in _FORMER_FIELDS}
    for gpu, entry in zip(gpus, entries, strict=True):
        for table, field in _FORMER_FIELDS.items():
            words = _field(entry, field)
            if not isinstance(words, dict) or words.keys() != keys.keys():
                raise _wrong(field, f"of {gpu.name}: expected a key for each of {len(keys)} GPUs, gpu_{gpu.index} too")
            for key, other in keys.items():
                tables[table][gpu.name, other] = AmdCell(_text(words, key))
    return AmdTopology(sorted(gpus, key=lambda gpu: gpu.index), tables)


def _of_rocm_smi(document: object) -> AmdTopology:
    """Return what an object with a key for each pair, once, and one for each GPU tells."""
    fields = _field(document, "system")
    tables: dict[AmdTable, dict[Pair, AmdCell]] = {table: {} for table in _NAMES}
    if not isinstance(fields, dict):
        raise _wrong("system", "expected an object")
    for name in fields:
        found = _PAIR.fullmatch(name)
        table = _TABLES.get(found[1]) if found else None
        if found and table:
            cell, (one, other) = AmdCell(_text(fields, name)), (f"GPU{found[2]}", f"GPU{found[3]}")
            tables[table][one, other] = tables[table][other, one] = cell
    nodes = _nodes_of_cards(document)
    names = sorted({f"GPU{index}" for index in nodes}, key=lambda name: int(name[3:]))
    _check_names(names)
    for table, cells in tables.items():
        for one, other in combinations(names, 2):
            if (one, other) not in cells:
                raise _wrong(f"{_NAMES[table]} {one[3:]} and {other[3:]}", "missing")
        if stranger := next((one for pair in cells for one in pair if one not in names), ""):
            raise _wrong(f"card{stranger[3:]}", f"missing, and {_NAMES[table]} has it")
    return AmdTopology([MatrixGpu(index, nodes[index]) for index in sorted(nodes)], tables)


def _nodes_of_cards(document: object) -> Mapping[int, NodeSet]:
    """Return the NUMA node of each GPU, by its number."""
    cards = document if isinstance(document, dict) else {}
    nodes = {}
    for name, card in cards.items():
        if number := _CARD.fullmatch(name):
            texts = [_text(card, each) for each in _NODE_NAMES]
            known = [int(text) for text in texts if text.isdecimal() and len(text) <= 4]
            nodes[int(number[1])] = NodeSet.of(known[:1])
    return nodes


def _check_names(names: list[str]) -> None:
    if len(names) > MAX_DEVICES:
        raise _wrong(names[MAX_DEVICES], f"more than {MAX_DEVICES} GPUs; at most {MAX_DEVICES} are read")
    if twice := [name for i, name in enumerate(names) if name in names[:i]]:
        raise _wrong(twice[0], "it stands twice")


def _field(value: object, name: str) -> object:
    if not isinstance(value, dict) or name not in value:
        raise _wrong(name, "missing")
    return value[name]


def _text(value: object, name: str) -> str:
    found = _field(value, name)
    if isinstance(found, bool) or not isinstance(found, str | int):
        raise _wrong(name, f"expected a text or number, got {str(found)[:20]!r}")
    return str(found)


def _number(value: object, name: str) -> int:
    text = _text(value, name)
    if not text.isdecimal() or len(text) > 4:
        raise _wrong(name, f"expected the number of a GPU, got {text[:20]!r}")
    return int(text)


def _address(value: object) -> str:
    text = _text(value, "bdf").lower()
    if not PCI_ADDRESS.match(text):
        raise _wrong("bdf", f"expected a PCI address like 0000:05:00.0, got {text[:20]!r}")
    return text


def _address_or_none(value: object) -> str:
    """Return the address, '' where there is no such field."""
    return _address(value) if isinstance(value, dict) and "bdf" in value else ""


def _wrong(token: str, problem: str) -> LinkError:
    return LinkError(0, 0, token[:60], f"{problem}; {_SAVE}")
