"""Print a command's result as text, JSON or YAML; decide whether the terminal gets colours."""

import json
import os
import sys

from cri_proxy.codec import encode


def render(value: object, output: str, text: str) -> str:
    """Return the text itself, or ``value`` (plain data, or frozen values) as JSON or YAML.

    >>> render({"cpus": "0-3"}, "json", "CPUs 0-3")
    '{"cpus": "0-3"}'
    """
    if output == "text":
        return text
    plain = encode(value)
    if output == "json":
        return json.dumps(plain, ensure_ascii=False, indent=None if _is_short(plain) else 2)
    import yaml

    document: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)
    return document.rstrip("\n")


def _is_short(plain: object) -> bool:
    return len(repr(plain)) < 80


def emit(value: object, output: str, text: str) -> None:
    """Print a result in the format that ``-o`` selects."""
    print(render(value, output, text))


def is_colourful() -> bool:
    """Return whether standard output is a terminal that wants colours (https://no-color.org)."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
