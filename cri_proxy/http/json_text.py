"""Our values as the JSON that is answered: at once, or slice by slice where there are many containers in it."""

import json
from dataclasses import fields

from cri_proxy.http.slices import BUNCH, Slices, bunches
from cri_proxy.http.view import StatusView
from cri_proxy.state.codec import encode


def json_text(value: object) -> str:
    """Plain data (``codec.Plain``) as one line."""
    # Without indentation: that is three times as fast, and the event loop relays calls meanwhile.
    return json.dumps(value, ensure_ascii=False)


def status_text(view: StatusView) -> Slices[str]:
    """The same text as of the whole view, its longer lists written bunch by bunch."""
    parts: list[str] = []
    for field in fields(view):
        parts.append(f"{', ' if parts else '{'}{json_text(field.name)}: ")
        value = getattr(view, field.name)
        if isinstance(value, tuple) and len(value) > BUNCH:
            texts = []
            for bunch in bunches(value):
                yield
                texts.append(json_text(encode(bunch))[1:-1])
            parts.append(f"[{', '.join(texts)}]")
        else:
            parts.append(json_text(encode(value)))
    yield
    return "".join([*parts, "}"])
