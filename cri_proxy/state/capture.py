"""Write the state of a daemon as plain data, for the archive of a captured node, and read it back. Pure."""

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Final

from cri_proxy.codec import Plain, decode, encode
from cri_proxy.state.rows import Row, SandboxRow, Saved
from policies.base import Pod

STATE: Final = "cri-proxy/state.json"
"""The member of an archive, beside ``sys`` and ``proc``."""
_STANDING: Final = ("created", "running")


def state_json(options: Mapping[str, object], sandboxes: Iterable[SandboxRow]) -> dict[str, Any]:
    """Return what ``capture --state`` adds to an archive, without the rows, which the caller encodes in steps."""
    found: dict[str, Any] = {"version": 1, "options": without_nulls(options), "rows": []}
    return found | {"sandboxes": [_plain_sandbox(each) for each in sandboxes]}


def without_nulls(options: Mapping[str, object]) -> dict[str, object]:
    """Return the options that are set, groups included."""
    found: dict[str, object] = {}
    for key, given in options.items():
        value = without_nulls(given) if isinstance(given, Mapping) else given
        if value not in (None, {}, []):
            found[key] = value
    return found


def _plain_sandbox(row: SandboxRow) -> dict[str, Plain]:
    config = base64.b64encode(row.config).decode()
    head: dict[str, Plain] = {"sandbox_id": row.sandbox_id, "cgroup_parent": row.cgroup_parent, "config": config}
    return head | {"pod": encode(row.pod, sparse=True), "annotations": encode(row.annotations)}


def read_state(plain: object) -> tuple[Mapping[str, object], Saved]:
    """Return the options, and what stands: the containers that exist. Raises ValueError, KeyError and TypeError."""
    if not isinstance(plain, dict) or not isinstance(plain["options"], dict):
        raise ValueError("expected options, rows and sandboxes")
    rows = (decode(Row, row) for row in plain["rows"])
    standing = tuple(row for row in rows if row.state in _STANDING and row.container_id)
    return plain["options"], Saved(standing, tuple(_sandbox(each) for each in plain["sandboxes"]))


def _sandbox(plain: Mapping[str, object]) -> SandboxRow:
    annotations = plain["annotations"]
    pairs = tuple((str(key), str(value)) for key, value in annotations) if isinstance(annotations, list) else ()
    config = base64.b64decode(str(plain["config"]), validate=True)
    return SandboxRow(str(plain["sandbox_id"]), decode(Pod, plain["pod"]), pairs, str(plain["cgroup_parent"]), config)
