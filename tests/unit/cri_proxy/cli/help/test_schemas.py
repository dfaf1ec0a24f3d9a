"""A schema takes what its reader takes, and refuses what the reader refuses by shape: a list, a scalar, a key."""

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import jsonschema
import pytest

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.cli.help.schemas import SCHEMAS, any_case
from cri_proxy.codec import encode
from cri_proxy.config.load import parse_config
from cri_proxy.config.model import known_options
from cri_proxy.costs.merge import read_listing
from cri_proxy.errors import CriProxyError
from cri_proxy.inventory.file import read_inventory_text
from cri_proxy.link_file import read_link_text
from cri_proxy.node.status.decision_views import ExplainView
from cri_proxy.yaml_fields import YamlField
from policies.errors import PolicyBaseError
from tests.fakes.views import explanation, status_view

ROOT: Final = Path(__file__).parents[5]
DIALECT: Final = Dialect(max_bytes=1 << 20, max_depth=40, max_nodes=100_000, has_aliases=True)
READERS: Final[dict[str, Callable[[str], object]]] = {
    "configuration": parse_config,
    "inventory": lambda text: read_inventory_text(text, "f"),
    "costs": lambda text: read_listing("f", text),
    "links": lambda text: read_link_text(text, "f", DIALECT),
}
INVENTORY: Final = """
gpu:
- {minor: 0, numa: 0, pcie: "a", bus: "0000:10:00.0", labels: {a: b}, health: true, resources: {gpu-memory: 80Gi}}
- {minor: 1, nodeID: 1, uuid: GPU-1, parts: [MIG-1], vendor: nvidia}
rdma:
- {minor: 0, vf_groups: [{labels: {a: b}, vfs: [{minor: 0, bus: "0000:20:00.1"}, {busID: "0000:20:00.2"}]}]}
partitions: {2: [{minors: [0, 1], score: 2, bandwidth: 1Gi, link: NVLink}]}
node_labels: {a: b}
links: {nvlink: [[X, 1], [1, X]]}
"""
KOORDINATOR: Final = """
kind: Device
metadata: {name: n, labels: {a: b}}
spec: {devices: [{type: gpu, minor: 0, topology: {nodeID: 0, pcieID: "1", busID: "0000:10:00.0"}, id: GPU-0}]}
"""
# What the reader says of a value that is a list, a mapping or a scalar where another is expected, or of its keys.
BY_SHAPE: Final = re.compile(
    "unknown key|unknown option|is missing;|got a (?:list|mapping)|"
    "expected (?:a list|a mapping|a text or number|a value)"
)
OTHERS: Final[tuple[object, ...]] = ({}, [], None, "x", 7, True, [None], [{}], {"odd": 1})


def plain(text: str) -> object:
    (root,) = YamlField.documents(text, "f", DIALECT)
    return root.plain()


def samples(name: str) -> list[object]:
    folder = ROOT / "configs"
    match name:
        case "configuration":
            files = [folder / f"{each}.yaml" for each in ("all-options", "minimal", "shared-node", "strict")]
            return [plain(file.read_text()) for file in files]
        case "inventory":
            return [plain(INVENTORY), plain(KOORDINATOR)]
        case "costs":
            listing = {"a/x": [{"10": ["a/y"]}, {"20": "a/z"}], "a/y": {"10": ["a/x"]}}
            return [listing, {"costs": listing, "present": ["b/1"]}]
    tables = {"nvlink": [["X", 1], "1 X"], "pcie": [["X", "PIX"], ["PIX", "X"]]}
    return [tables, {"text": "GPU0 GPU1\nGPU0 X NV1\nGPU1 NV1 X\n"}]


def taker(name: str) -> Callable[[object], bool]:
    takes: Callable[[object], bool] = jsonschema.Draft7Validator(dict(SCHEMAS[name]())).is_valid
    return takes


def refusal(name: str, value: object) -> str:
    """Why the reader refuses a document, '' where it takes it."""
    try:
        READERS[name](json.dumps(value))
    except (CriProxyError, PolicyBaseError) as error:
        return str(error)
    return ""


def changes_of(value: object) -> Iterator[object]:
    """The document with one thing of another shape: a value replaced, a key added, misspelt or left out."""
    for path in paths_of(value):
        for other in OTHERS:
            yield changed(value, path, other)
    for path in paths_of(value):
        found = at(value, path)
        if isinstance(found, dict):
            yield changed(value, path, {**found, "oddKey": 1})
            for key in found:
                yield changed(value, path, {k: v for k, v in found.items() if k != key})


def paths_of(value: object, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from paths_of(item, (*path, key))


def at(value: object, path: tuple[object, ...]) -> object:
    for key in path:
        value = value[key]  # type: ignore[index]
    return value


def changed(value: object, path: tuple[object, ...], other: object) -> object:
    if not path:
        return other
    made = copy.deepcopy(value)
    at(made, path[:-1])[path[-1]] = other  # type: ignore[index]
    return made


def has_schema(value: object) -> bool:
    """Files of links may hold text, an empty file is none, and ``policy: {}`` is cri-resource-manager's layout."""
    return isinstance(value, dict) and bool(value) and not isinstance(value.get("policy"), dict)


@pytest.mark.parametrize("name", READERS)
def test_a_schema_takes_what_the_reader_takes_and_refuses_what_it_refuses_by_shape(name: str) -> None:
    takes = taker(name)
    wrong: list[str] = []
    refused = 0
    for sample in samples(name):
        assert refusal(name, sample) == ""
        for value in filter(has_schema, (sample, *changes_of(sample))):
            problem, is_good = refusal(name, value), takes(value)
            refused += not is_good
            if is_good == bool(problem) and (not problem or BY_SHAPE.search(problem)):
                wrong.append(f"{problem or 'taken'}: {value}")
    assert wrong == []
    assert refused > 10


def test_every_option_is_in_the_schema_with_its_text() -> None:
    text = json.dumps(SCHEMAS["configuration"]())
    assert [known.key for known in known_options() if json.dumps(known.option.text)[1:-1] not in text] == []


def test_the_case_of_a_key_does_not_matter() -> None:
    assert taker("configuration")({"RESERVEDRESOURCES": {"CPU": "750m"}, "onshortage": "Refuse"})
    assert not taker("configuration")({"reservedResource": {"cpu": "750m"}})


def test_the_answers_of_the_daemon_match_their_schemas() -> None:
    assert taker("status")(encode(status_view()))
    assert taker("explain")(encode(ExplainView((explanation(),))))
    odd = encode(status_view())
    assert isinstance(odd, dict)
    assert not taker("status")({**odd, "pools": {}})
    assert taker("status")({**odd, "of_a_later_version": 1})


def test_words_match_whole_and_in_any_case() -> None:
    assert re.search(any_case(["pin-cpu"]), "PIN-cpu")
    assert not re.search(any_case(["pin"]), "pins")
