"""Make an edit of the kubelet's settings in the text of its file; all else in the text stays as it is. Pure."""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import yaml

from cri_proxy.kubelet.edits import ARG, Edit
from cri_proxy.kubelet.settings import CGROUPS_PER_QOS, ENFORCED, FAIL_CGROUP_V1

_ARGS: Final = "kubelet-arg"
_Document = dict[str, Any]


def edited(text: str, edit: Edit) -> str:
    r"""Return the file's text with this edit. Raises ValueError for a text that is no configuration.

    >>> edited("kind: X\n# ours\n", Edit("/k.yaml", "cpuManagerPolicy", "none"))
    'kind: X\n# ours\ncpuManagerPolicy: none\n'
    >>> edited('ARGS="--v=2"\n', Edit("/k.env", "--node-ip", "1.2.3.4"))
    'ARGS="--v=2 --node-ip=1.2.3.4"\n'
    """
    if edit.key.startswith("--"):
        return _with_flag(text, edit.key, edit.value)
    document = _loaded(text)
    wanted = _loaded(text)
    _change(wanted, edit)
    if wanted == document:
        return text
    if text.lstrip().startswith("{"):  # JSON, which is YAML too, stays JSON
        return json.dumps(wanted, indent=2) + "\n"
    with suppress(ValueError):  # a value over several lines leaves the rest of it there
        by_line = _in_lines(text, edit)
        if _loaded(by_line) == wanted:  # a dump would lose the file's comments and order
            return by_line
    return yaml.safe_dump(wanted, sort_keys=False)


def _loaded(text: str) -> _Document:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {error}") from None
    if document is not None and not isinstance(document, dict):
        raise ValueError("expected a mapping at the top")
    return document or {}


def _change(document: _Document, edit: Edit) -> None:
    if edit.key.startswith(ARG):
        _change_args(document, edit)
        return
    *parents, key = edit.key.split(".")
    for name in parents:
        document = document.setdefault(name, {})
    if edit.value is None:
        document.pop(key, None)
    else:
        document[key] = _VALUES.get(key, str)(edit.value)


def _change_args(document: _Document, edit: Edit) -> None:
    """A new flag becomes the first of the list, since its lines may end in any way."""
    flag = edit.key.removeprefix(ARG)
    given = document.get(_ARGS) or []
    args = [str(arg) for arg in (given if isinstance(given, list) else [given])]
    at = next((at for at, arg in enumerate(args) if arg.startswith(f"{flag.partition('.')[0]}=")), None)
    before = "" if at is None else args.pop(at)
    if changed := _with_flag(f"--{before}" if before else "", f"--{flag}", edit.value).strip():
        args.insert(at or 0, changed.removeprefix("--"))
    document[_ARGS] = args
    if not args:
        del document[_ARGS]


# The types of values that are no text.
_VALUES: Final[dict[str, Callable[[str], object]]] = {
    ENFORCED: lambda value: value.split(","),
    CGROUPS_PER_QOS: lambda value: value == "true",
    FAIL_CGROUP_V1: lambda value: value == "true",
}


def _in_lines(text: str, edit: Edit) -> str:
    """Return the text with one line more, less or changed, which may not be what is wanted."""
    lines = text.splitlines()
    if edit.key.startswith(ARG):
        return _args_in_lines(lines, edit)
    at = _place(lines, rf"{re.escape(edit.key)}:")
    return _joined(lines, at, len(lines), None if edit.value is None else f"{edit.key}: {edit.value}")


def _args_in_lines(lines: list[str], edit: Edit) -> str:
    flag = edit.key.removeprefix(ARG)
    at, list_at = _place(lines, rf" *- *[\"']?{re.escape(flag)}="), _place(lines, rf"{_ARGS}: *(#.*)?$")
    if list_at is None:
        return _joined(lines, None, len(lines), f"{_ARGS}:\n- {flag}={edit.value}")
    first = lines[list_at + 1 : list_at + 2]
    indent = re.match(" *", lines[at] if at is not None else "".join(first))
    changed = f"{indent[0] if indent else ''}- {flag}={edit.value}"
    without = _joined(lines, at, list_at + 1, None if edit.value is None else changed)
    return without if _loaded(without).get(_ARGS) else _joined(without.splitlines(), list_at, 0, None)


def _place(lines: list[str], pattern: str) -> int | None:
    return next((at for at, line in enumerate(lines) if re.match(pattern, line)), None)


def _joined(lines: list[str], at: int | None, otherwise_at: int, line: str | None) -> str:
    """Return the text with this line in the place of that one, or before another; None: without it."""
    changed = [*lines]
    if at is None:
        changed[otherwise_at:otherwise_at] = [] if line is None else [line]
    else:
        changed[at : at + 1] = [] if line is None else [line]
    return "".join(f"{each}\n" for each in changed)


def _with_flag(text: str, key: str, value: str | None) -> str:
    """Return an environment file, a unit or a list of arguments with this flag, or without it."""
    flag, _, entry = key.partition(".")
    word = re.compile(rf"{re.escape(flag)}=[^\s\"']*")
    if entry:
        pairs = dict(pair.split("=", 1) for match in word.findall(text) for pair in match.split("=", 1)[1].split(","))
        pairs = {**pairs, entry: value} if value is not None else {k: v for k, v in pairs.items() if k != entry}
        value = ",".join(f"{name}={text}" for name, text in pairs.items())
    changed = word.sub("" if value is None else f"{flag}={value}", text)
    if value is None or word.search(text):
        return changed
    return re.sub(r"(\s*[\"']?\s*)$", rf" {flag}={value}\1", changed, count=1)
