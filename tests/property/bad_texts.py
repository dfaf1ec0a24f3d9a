"""Texts that nobody should write as an annotation or an option, and somebody will."""

import json

import yaml
from hypothesis import strategies as st

LONG = 70_000

# One of each kind of harm that YAML, JSON, numbers and Unicode can do.
NASTY = (
    "", " ", "\n", "null", "~", "{", "[", "{]", "'", '"', "a: b: c", "- ", "? a", "? [a]\n: b", "@", "`", "%YAML 9",
    "=", "---\na\n---\nb", "<<: {a: 1}", "<<: 1", "!!python/object/apply:os.system [id]", "!!binary x", "!!set {a}",
    "!x y", "&a [*a]", "*a", "&a a", "true\n...\n", "0x", "0b_", "0x" + "f" * LONG, "1:" * 30_000 + "1", "9" * 5000,
    "-9" * 9, "1e999", "-.inf", ".nan", "2001-99-99", "2001-01-01", "01:02:03.5", "1_000", "010", "+5", "-0", "\x00",
    '"\\0"', '"\\ud800"', '{"c0": "\\ud800"}', "\u202e\u2066", "\ufeff1", "𝟙", "é" * 300, "\U0010ffff", "\t1",
    "\r\n", "#", "x" * LONG, "[" * 2000, "{a: " * 200 + "}" * 200, "- " * 2000, '{"a":' * 2000, "c0:", "c0: null",
    "c0: {}", "c0: []", "{c0: {c0: {c0: 1}}}", "c0: {duration: {duration: 1s}}", "duration:",
    "paths: [/]\ntype: prefix\nmore: 1", "true,false", "c0: [{match: {}}]",
    "c0: [{match: {key: ':', operator: Exists}}]", "c0: [" + "c1," * 3000 + "]", "1, 2", "[1, true]",
    "c0: [{match: {operator: Matches, values: ['" + "a*" * 200 + "b']}}]", "[/a" + "*" * 500 + "]", "[podresapi:]",
    "-999999999", "99999999999999999999", "1.5", "1e3", "1h1m1s1ms", "[[]]", "[{}]", "{1: 2}", "{true: 1}",
    "{null: 1}",
)  # fmt: skip

_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**40), 10**40)
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["c0", "c1", "dram", "true", "hide", "-1", "60s", "/dev/x", "*", "cpuset:0-3", "750m"])
)
_KEYS = st.text(max_size=8) | st.sampled_from(
    ["c0", "match", "scope", "weight", "key", "operator", "values", "duration", "type", "paths", "cpu", "containers"]
)
VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4), max_leaves=12
)


def as_json(value: object) -> str:
    """The value as JSON, NaN and infinity included: Python writes them, and somebody's generator will."""
    return json.dumps(value)


def as_yaml(value: object) -> str:
    return str(yaml.safe_dump(value, allow_unicode=True))


TEXTS = (
    st.sampled_from(NASTY)
    | st.text(max_size=60)
    | st.text("c01:{}[],-&*!|>'\"\n \\#%@`?=~.", max_size=40)
    | VALUES.map(as_json)
    | VALUES.map(as_yaml)
)
