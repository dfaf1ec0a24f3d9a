"""Render our Helm chart without helm: the subset of Go's text/template that ``packaging/kubernetes/chart`` uses.

``python -m tests.fakes.chart [VALUES.yaml]`` prints it. What it does not know raises ``TemplateError``: a template that
uses more fails here first. Its answers were held against Go's own text/template, with the same functions in Go.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

import jsonschema
import yaml

CHART: Final = Path(__file__).parent.parent.parent / "packaging" / "kubernetes" / "chart"
_ACTION: Final = re.compile(r"(\s*\{\{- |\{\{ ?)(.*?)( -\}\}\s*| ?\}\})", re.DOTALL)
_WORD: Final = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[()|]|:=|=|[^\s()|"]+)')
_NUMBER: Final = re.compile(r"\d+")


class TemplateError(Exception):
    """A template that is wrong, or that needs more than this subset."""


class ValuesRefusedError(Exception):
    """The sentence of a template about values that would make what cannot work (``fail``)."""


@dataclass(slots=True)
class Node:
    """A text, or an action with what stands in its branches."""

    text: str = ""
    words: tuple[str, ...] = ()
    body: list["Node"] = field(default_factory=list)
    other: list["Node"] = field(default_factory=list)


def rendered(values: Mapping[str, Any] | None = None, namespace: str = "kube-system") -> list[dict[str, Any]]:
    """The objects of the chart with these values laid over its own.

    Raises jsonschema.ValidationError, and ValuesRefusedError as helm's own ``fail`` ends it.
    """
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    merged = _merged(yaml.safe_load((CHART / "values.yaml").read_text()), values or {})
    jsonschema.validate(merged, json.loads((CHART / "values.schema.json").read_text()))
    about = {"AppVersion": chart["appVersion"], "Name": chart["name"], "Version": chart["version"]}
    root = {"Values": merged, "Chart": about, "Release": {"Namespace": namespace}}
    texts = [text_of(path.read_text(), root) for path in sorted((CHART / "templates").glob("*.yaml"))]
    return [each for text in texts for each in yaml.safe_load_all(text) if each]


def text_of(template: str, root: object) -> str:
    """The text that a template makes, ``root`` being its dot."""
    nodes = list(_tokens(template))
    tree: list[Node] = []
    if _parse(nodes, tree):
        raise TemplateError(f"{nodes[0].words}: nothing is open that it could end")
    return "".join(_render(tree, {"$": root}))


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """As helm lays values over others: mappings by key, all else as a whole."""
    both = {key for key in over if isinstance(over[key], dict) and isinstance(base.get(key), dict)}
    return {**base, **over, **{key: _merged(base[key], over[key]) for key in both}}


def _tokens(template: str) -> Iterator[Node]:
    at = 0
    for action in _ACTION.finditer(template):
        yield Node(text=template[at : action.start()])
        at = action.end()
        if not action[2].startswith("/*"):
            yield Node(words=tuple(_WORD.findall(action[2])))
    yield Node(text=template[at:])


def _parse(ahead: list[Node], into: list[Node]) -> tuple[str, ...]:
    """Move nodes into the list up to the one that ends it; its words, () at the end of the template."""
    while ahead:
        node = ahead.pop(0)
        if node.words[:1] in (("end",), ("else",)):
            if node.words not in (("end",), ("else",)):
                raise TemplateError(f"{node.words}: not in this subset")
            return node.words
        into.append(node)
        if node.words[:1] in (("if",), ("range",)):
            ended = _parse(ahead, node.body)
            if ended == ("else",):
                ended = _parse(ahead, node.other)
            if ended != ("end",):
                raise TemplateError(f"{node.words}: no end")
    return ()


def _render(nodes: Sequence[Node], names: dict[str, Any]) -> Iterator[str]:
    for node in nodes:
        match node.words:
            case ():
                yield node.text
            case ("if", *condition):
                yield from _render(node.body if _value(condition, names) else node.other, dict(names))
            case ("range", *words):
                yield from _ranged(node, words, names)
            case (str(name), ":=" | "=" as sign, *rest) if name.startswith("$"):
                _assign(names, name, _value(rest, names), is_new=sign == ":=")
            case words:
                yield _shown(_value(words, names))


def _assign(names: dict[str, Any], name: str, value: object, *, is_new: bool) -> None:
    """A variable is a list of its value, which the branch that changes it shares with those around it."""
    if is_new:
        names[name] = [value]
    else:
        names[name][0] = value


def _ranged(node: Node, words: Sequence[str], names: dict[str, Any]) -> Iterator[str]:
    if ":=" not in words:
        raise TemplateError(f"{words}: a range needs variables")
    at = words.index(":=")
    variables = [word.rstrip(",") for word in words[:at]]
    found = _value(words[at + 1 :], names)
    pairs = sorted(found.items()) if isinstance(found, dict) else list(enumerate(found))
    for pair in pairs:
        inner = dict(names)
        for name, value in zip(variables, pair if len(variables) > 1 else pair[1:], strict=True):
            _assign(inner, name, value, is_new=True)
        yield from _render(node.body, inner)


def _value(words: Sequence[str], names: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a value of YAML
    rest = list(words)
    value = _pipeline(rest, names)
    if rest:
        raise TemplateError(f"{' '.join(words)}: {rest[0]} is too much")
    return value


def _pipeline(words: list[str], names: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a value of YAML
    value, is_piped = None, False
    while True:
        terms: list[Any] = []
        function = words.pop(0) if words and words[0] in _FUNCTIONS else ""
        while words and words[0] not in ("|", ")"):
            terms.append(_term(words, names))
        terms += [value] if is_piped else []
        if not function and len(terms) != 1:
            raise TemplateError(f"{words}: expected one value or a function")
        value, is_piped = _FUNCTIONS[function](*terms) if function else terms[0], True
        if not words or words.pop(0) == ")":
            return value


def _term(words: list[str], names: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a value of YAML
    word = words.pop(0)
    if word == "(":
        return _pipeline(words, names)
    if word.startswith('"'):
        return json.loads(word)
    if _NUMBER.fullmatch(word):
        return int(word)
    variable, *path = word.split(".")
    if variable.startswith("$") and variable != "$":
        (value,) = names[variable]
    elif variable in ("", "$"):
        value = names["$"]
    else:
        raise TemplateError(f"{word}: no function or value of this subset")
    for key in path:
        if key not in value:
            raise TemplateError(f"{word}: there is no {key}")
        value = value[key]
    return value


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _fail(sentence: str) -> NoReturn:
    raise ValuesRefusedError(sentence)


def _all(*values: object) -> object:
    """The first that is empty, else the last, as Go's ``and``."""
    return next((value for value in values if not value), values[-1])


_FUNCTIONS: Final[Mapping[str, Any]] = {
    "and": _all,
    "concat": lambda *lists: [each for one in lists for each in one],
    "default": lambda given, value: value or given,
    "eq": lambda left, right: left == right,
    "fail": _fail,
    "has": lambda needle, values: needle in values,
    "join": lambda between, values: between.join(values),
    "list": lambda *values: list(values),
    "not": lambda value: not value,
    "printf": lambda form, *values: form % values,
    "quote": lambda value: json.dumps(str(value)),
    "regexMatch": lambda form, text: re.search(form, text) is not None,
    "toJson": json.dumps,
}

if __name__ == "__main__":
    try:
        given = yaml.safe_load(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else None
        yaml.safe_dump_all(rendered(given), sys.stdout, sort_keys=False)
    except jsonschema.ValidationError as error:
        sys.exit(f"{sys.argv[1]}: {error.json_path}: {error.message}")
    except ValuesRefusedError as error:
        sys.exit(f"{sys.argv[1]}: {error}")
    except (OSError, yaml.YAMLError) as error:
        sys.exit(f"cannot be read: {error}")
