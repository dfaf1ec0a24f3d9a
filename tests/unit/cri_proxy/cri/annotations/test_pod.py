import time
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.cri.annotations.forms import AnnotationProblem
from cri_proxy.cri.annotations.pod import MAX_ANNOTATIONS, MAX_CPU_SHARED, PodAnnotations, parse_pod, select
from cri_proxy.cri.annotations.resource_managers import CPU_SHARED
from cri_proxy.cri.annotations.rules import DOMAINS
from cri_proxy.cri.annotations.table import TABLE
from cri_proxy.cri.annotations.values import MAX_BYTES, MAX_NODES
from tests.fakes.annotations import parse_annotations

OURS, NRI, _ = DOMAINS
KEY = f"{OURS}/allow.topologyhints"
RUNS = 3


def read(annotations: Mapping[str, str]) -> PodAnnotations:
    return parse_pod(select(annotations, DOMAINS), DOMAINS)


def problem_of(annotations: Mapping[str, str]) -> str:
    pod = read(annotations)
    assert (dict(pod.texts), len(pod.problems)) == ({}, 1)
    return pod.problems[0].problem


def test_the_annotations_of_other_domains_are_left_out() -> None:
    own = {f"memory-type.{NRI}/pod": "dram", KEY: "[/dev]", "intel.com/resources": "{}"}
    others = {"kubectl.kubernetes.io/last-applied-configuration": "x" * 200_000, "cri-proxy.iox/affinity": "x"}
    pod = read({**own, **others})
    assert {key: text.text for key, text in pod.texts.items()} == own


def test_annotations_of_resource_managers_are_kept_by_name_and_take_nothing_from_the_bounds() -> None:
    own = {f"memory-type.{NRI}/pod": "dram"}
    others = {"cpu-quota.crio.io": "disable", "scheduling.koordinator.sh/resource-status": "{" * 200_000}
    shared = {f"{CPU_SHARED}c{number}": "enable" for number in range(1000)}
    texts = {key: text.text for key, text in read({**own, **others, **shared}).texts.items()}
    assert texts == own | dict.fromkeys(others, "") | dict.fromkeys(sorted(shared)[:MAX_CPU_SHARED], "")


def test_all_annotations_of_a_pod_together_have_one_bound() -> None:
    half = "x" * (MAX_BYTES // 2)
    assert problem_of({KEY: half, f"{NRI}/memory-type": half}) == (
        f"the pod has 16450 bytes for cri-proxy, more than {MAX_BYTES}: none of them counts"
    )
    assert read({KEY: half, f"{NRI}.x/memory-type": half}).texts  # of another domain


def test_bytes_count_not_characters() -> None:
    fits = MAX_BYTES - len(KEY)
    assert read({KEY: "x" * fits}).texts
    assert "bytes" in problem_of({KEY: "é" * (fits // 2 + 1)})


def test_many_annotations_are_refused_like_long_ones() -> None:
    assert len(read({f"k{i}.{OURS}": "" for i in range(MAX_ANNOTATIONS)}).texts) == MAX_ANNOTATIONS
    assert f"more than {MAX_ANNOTATIONS}" in problem_of({f"k{i}.{OURS}": "" for i in range(MAX_ANNOTATIONS + 1)})


@pytest.mark.parametrize(
    "text",
    ["[" + "a," * MAX_NODES + "]", "a\n---\n" * MAX_NODES, "---\n" * MAX_NODES, "- [a\n" * 5 + "[a, " * MAX_NODES],
    ids=["a flow list", "documents", "empty documents", "broken"],
)
def test_yaml_beyond_the_bound_of_nodes_is_refused_however_it_is_split(text: str) -> None:
    whole = {KEY: text}
    split = {f"allow.topologyhints.{OURS}/container.c{i}": "[" + "a," * (MAX_NODES // 9) + "]" for i in range(10)}
    assert "as JSON" in problem_of(split)
    problem = read(whole).problems
    assert all("as JSON" in p.problem for p in problem)
    assert time_of(lambda: read(whole)) < 10 * reference()


def test_the_same_length_in_json_is_read() -> None:
    text = "[" + "1," * MAX_NODES * 4 + "1]"
    assert read({KEY: text}).texts[KEY].value == [1] * (MAX_NODES * 4 + 1)


def test_beyond_the_bound_nothing_counts_and_the_problem_is_the_containers() -> None:
    parsed = parse_annotations({KEY: "x" * MAX_BYTES, f"{OURS}/cpu.preserve": "true"}, "c0")
    assert (parsed.preferences.preserve_cpu, [p.key for p in parsed.problems]) == (False, [KEY])


@given(st.dictionaries(st.sampled_from([KEY, "a", f"x.{OURS}", f"{OURS}\n", "intel.com/resources"]), st.text()))
def test_what_is_chosen_is_what_the_pod_says(annotations: dict[str, str]) -> None:
    chosen = select(annotations, DOMAINS)
    assert not isinstance(chosen, AnnotationProblem)
    assert chosen.items() <= annotations.items()
    assert chosen.keys() == annotations.keys() & {KEY, f"x.{OURS}", "intel.com/resources"}


def time_of(work: Callable[[], object]) -> float:
    """CPU seconds of the fastest of some runs."""
    taken = []
    for _ in range(RUNS):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return min(taken)


def reference() -> float:
    """What a plain loop of 100 000 additions takes: 2 to 4 ms on a machine of today."""
    return time_of(lambda: [i + i for i in range(100_000)])


def texts() -> dict[str, str]:
    """Texts that cost the most for their length: found by a search over shapes and random repetitions."""
    size = MAX_BYTES - 64
    return {
        "flow lists": "[" + "[]," * (size // 3),
        "a flow list": "[" + "a," * (MAX_NODES - 20) + "]",
        "lists of 240 KiB": "[" + "a," * (120 * 1024) + "]",
        "maps": "{a: " * 15 + "{" + "a: 1," * (MAX_NODES // 2 - 40) + "}" + "}" * 15,
        "keys": "".join(f"k{i}: 1\n" for i in range(MAX_NODES // 2 - 10)),
        "documents": "---\n" * (size // 4),
        "documents with text": "xx\t? 0b1...\n---\n#" * (size // 16),
        "a long word": "x" * size,
        "many words": "x " * (size // 2),
        "quotes": '"' + "\\u00e9" * (size // 6 - 1) + '"',
        "single quotes": "'" + "''" * (size // 2 - 2) + "'",
        "a block": "|\n" + " x\n" * (size // 3 - 2),
        "a folded block": ">\n" + " x\n\n" * (size // 4 - 2),
        "tags": "!!str " * (size // 6),
        "anchors": "&a " * (size // 3),
        "comments": "#\n" * (size // 2),
        "letters of two bytes": "é" * (size // 2),
        "spaces": " " * size + "a",
        "digits": "1" * size,
        "numbers in base 60": "[" + "1:59:59:59:59:59," * (MAX_NODES - 20) + "]",
        "numbers": "[" + "1.5," * (MAX_NODES - 20) + "]",
        "JSON": "[" + '"ab",' * (size // 5 - 2) + "1]",
        "almost JSON": "[" + "1," * (size // 2 - 3) + "]",
        "an object": "{" + ",".join(f'"{i}":1' for i in range(size // 9)) + "}",
        "long integers": "[" + ",".join(["1" * 4300] * 3) + "]",
        "a nest": "[" * size,
    }


@pytest.mark.parametrize("name", texts())
@pytest.mark.parametrize("key", ["allow.topologyhints", "notify-exec", "affinity"])
def test_the_worst_annotation_costs_a_pod_a_few_milliseconds(name: str, key: str) -> None:
    annotations = {f"{OURS}/{key}": texts()[name]}
    assert time_of(lambda: parse_annotations(annotations, "c0")) < 6 * reference()


def test_many_small_annotations_cost_a_pod_a_few_milliseconds() -> None:
    forms = ("{d}/{k}", "{k}.{d}", "{k}.{d}/pod", "{k}.{d}/container.c0")
    keys = [form.format(k=row.key, d=domain) for row in TABLE for domain in DOMAINS for form in forms]
    for text in ("x", "[", "{a: b}", '"'):
        annotations = dict.fromkeys(keys[:MAX_ANNOTATIONS], text)
        assert time_of(lambda annotations=annotations: parse_annotations(annotations, "c0")) < 6 * reference()  # type: ignore[misc]
    foreign = {f"k{i:04x}": "" for i in range(40_000)}
    assert time_of(lambda: parse_annotations(foreign, "c0")) < 3 * reference()
    near = {f"{OURS}/strict.topologyhin{chr(97 + i % 26)}{i}": "" for i in range(MAX_ANNOTATIONS)}
    assert time_of(lambda: parse_annotations(near, "c0")) < 6 * reference()
