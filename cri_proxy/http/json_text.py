"""Our values as the JSON that is answered: at once, or slice by slice where there are many containers in it."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields

from cri_proxy.codec import encode
from cri_proxy.node.status.model import StatusView
from cri_proxy.slices import BUNCH, Slices, bunches


def json_text(value: object) -> str:
    """Plain data (``codec.Plain``) as one line."""
    # Without indentation: that is three times as fast, and the event loop relays calls meanwhile.
    return json.dumps(value, ensure_ascii=False)


def status_text(view: StatusView) -> Slices[str]:
    """The same text as of the whole view, its longer lists written bunch by bunch."""
    return _object_text(((field.name, getattr(view, field.name)) for field in fields(view)), encode)


def object_text(plain: Mapping[str, object]) -> Slices[str]:
    """The same for plain data."""
    return _object_text(plain.items(), lambda value: value)


def _object_text(members: Iterable[tuple[str, object]], plain_of: Callable[[object], object]) -> Slices[str]:
    parts: list[str] = []
    for name, value in members:
        parts.append(f"{', ' if parts else '{'}{json_text(name)}: ")
        if isinstance(value, tuple | list) and len(value) > BUNCH:
            texts = []
            for bunch in bunches(value):
                yield
                texts.append(json_text(plain_of(bunch))[1:-1])
            parts.append(f"[{', '.join(texts)}]")
        else:
            parts.append(json_text(plain_of(value)))
    yield
    return "".join([*parts, "}"])
