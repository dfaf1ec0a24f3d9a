"""Apply the edits of doctor's remedies to the files of a root, as an operator or a distribution's set-up would."""

import re
from pathlib import Path

import yaml

from cri_proxy.kubelet.edits import ARG, Edit

_BOOLEANS = ("cgroupsPerQOS", "failCgroupV1")
# nodeadm writes what NodeConfig holds into this file.
_NODE_CONFIG = {"spec.kubelet.config of NodeConfig": "etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf"}


def apply(root: Path, edit: Edit) -> None:
    """Change the file below ``root``."""
    path = root / _NODE_CONFIG.get(edit.place, edit.place).lstrip("/")
    if not edit.key:
        path.unlink(missing_ok=True)
    elif edit.key.startswith("--"):
        path.write_text(_with_flag(path.read_text(), edit.key, edit.value))
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        document = (yaml.safe_load(path.read_text()) if path.exists() else None) or {}
        _change(document, edit)
        path.write_text(yaml.safe_dump(document))


def _change(document: dict[str, object], edit: Edit) -> None:
    if edit.key.startswith(ARG):
        given = document.get("kubelet-arg", [])
        assert isinstance(given, list)
        flags = " ".join(f"--{arg}" for arg in given)
        document["kubelet-arg"] = [
            word[2:] for word in _with_flag(flags, f"--{edit.key.removeprefix(ARG)}", edit.value).split()
        ]
        return
    *parents, key = edit.key.split(".")
    for name in parents:
        document = document.setdefault(name, {})  # type: ignore[assignment]
    if edit.value is None:
        document.pop(key, None)
    elif key == "enforceNodeAllocatable":
        document[key] = edit.value.split(",")
    else:
        document[key] = {"true": True, "false": False}.get(edit.value, edit.value) if key in _BOOLEANS else edit.value


def _with_flag(text: str, key: str, value: str | None) -> str:
    """The text of an environment file, a unit or a list of arguments with this flag, or without it."""
    flag, _, entry = key.partition(".")
    word = re.compile(rf"{flag}=[^\s\"']*")
    if entry:
        pairs = dict(pair.split("=", 1) for match in word.findall(text) for pair in match.split("=", 1)[1].split(","))
        pairs = {**pairs, entry: value} if value is not None else {k: v for k, v in pairs.items() if k != entry}
        value = ",".join(f"{name}={text}" for name, text in pairs.items())
    changed = word.sub("" if value is None else f"{flag}={value}", text)
    if value is None or word.search(text):
        return changed
    return re.sub(r"(\s*[\"']?\s*)$", rf" {flag}={value}\1", changed, count=1)
