"""Annotations and options of any shape: never an exception, the documented outcome, in bounded time.

For annotations: the value is taken, or told as a problem and ignored (docs/reference/annotations.md). For options: a
configuration, or a ConfigError that names key and line (docs/reference/options.md).
"""

import json
import time
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.codec import decode, encode
from cri_proxy.config.layouts import file_names
from cri_proxy.config.load import parse_config
from cri_proxy.config.model import Config, known_options
from cri_proxy.config.option import Known
from cri_proxy.config.resolve import policy_options
from cri_proxy.cri.annotations.affinity import MAX_AFFINITIES, MAX_VALUES, MAX_WORD_CHARS
from cri_proxy.cri.annotations.device_filter import MAX_PATHS
from cri_proxy.cri.annotations.exact_resources import KEYS
from cri_proxy.cri.annotations.forms import Annotation, Finder
from cri_proxy.cri.annotations.preferences import MAX_ARGUMENTS, MAX_COLD_START_SECONDS
from cri_proxy.cri.annotations.read import Parsed
from cri_proxy.cri.annotations.resource_managers import OF_PEERS
from cri_proxy.cri.annotations.rules import DOMAINS
from cri_proxy.cri.annotations.table import TABLE
from cri_proxy.cri.annotations.values import MAX_LEVELS_UP, ReadText, by_container, parse_text
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.read_request import merge_update, read_create
from cri_proxy.errors import ConfigError
from policies.base import Allocations, Placed, Rejected, Request
from policies.builder import build_policy
from policies.preferences import Preferences
from tests.fakes.annotations import parse_annotations
from tests.fakes.machines import small_machine
from tests.fakes.reference import reference_seconds
from tests.property.bad_texts import NASTY, TEXTS, VALUES, as_json, as_yaml

FEW = settings().max_examples // 3  # of what is tried for every row or option
FORMS = ("{d}/{k}", "{k}.{d}", "{k}.{d}/pod", "{k}.{d}/container.c0")
MACHINE = small_machine(nodes=2)
POLICY = build_policy(
    "topology-aware", MACHINE, policy_options(parse_config("reservedResources: {cpu: 1}"), MACHINE).options
)
ROWS = st.sampled_from(TABLE)
KEYED = st.builds(
    lambda row, form, domain: form.format(d=domain, k=row.key), ROWS, st.sampled_from(FORMS), st.sampled_from(DOMAINS)
)
FOREIGN = st.sampled_from(
    [*KEYS, *(f"{DOMAINS[1]}/{key}" for key in OF_PEERS), f"{DOMAINS[0]}/grant", f"{DOMAINS[0]}/hyper"]
)
ANNOTATIONS = st.dictionaries(KEYED | FOREIGN | st.text(max_size=20), TEXTS, max_size=6)
# Of a loop in plain Python, measured right after each input: the worst of them needs less than ten million. Far less
# than what no bound would mean.
ROUNDS = 100_000_000
MEASURED_ROUNDS = 10_000


def check(parsed: Parsed) -> None:
    """What the policy, the store and the pages rely on."""
    preferences = parsed.preferences
    assert 0 <= preferences.levels_up <= MAX_LEVELS_UP
    assert 0 <= preferences.cold_start_seconds <= MAX_COLD_START_SECONDS
    assert len(preferences.notify) <= MAX_ARGUMENTS
    assert list(preferences.memory_kinds) == sorted(set(preferences.memory_kinds))
    assert max(len(parsed.locality_filter.allow), len(parsed.locality_filter.deny)) <= MAX_PATHS
    assert len(parsed.affinities) <= 2 * MAX_AFFINITIES
    values = [value for a in parsed.affinities for value in a.match.values]
    assert len(values) <= 2 * MAX_VALUES
    assert all(len(value) <= MAX_WORD_CHARS for value in values)
    assert all(abs(a.weight) <= 1000 for a in parsed.affinities)
    assert all(problem.problem and len(problem.value) <= 80 for problem in parsed.problems)


def speaks_of(row: Annotation[object], form: str, text: str, container: str) -> bool:
    """Whether an annotation of this form is read for this container at all."""
    if row.by_container_only and form != FORMS[0]:
        return False
    try:
        entries = by_container(parse_text(text), row.value_fields)
    except ValueError:
        return True
    return entries is None or container in entries or form == FORMS[-1]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.key)
@given(form=st.sampled_from(FORMS), text=TEXTS)
@settings(max_examples=FEW)
def test_a_value_is_taken_or_told(row: Annotation[object], form: str, text: str) -> None:
    key = form.format(d=DOMAINS[0], k=row.key)
    parsed = parse_annotations({key: text}, "c0")
    check(parsed)
    finder = Finder({key: ReadText.of(text)}, "c0", DOMAINS)
    found = finder.find(row)
    told = [problem.key for problem in parsed.problems]
    if speaks_of(row, form, text, "c0"):
        assert (found is not None and not finder.problems) or told == [key]
    else:
        is_misplaced = row.by_container_only and form != FORMS[0]
        assert (found, told) == (None, [key] if is_misplaced else [])


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_the_worst_values_are_taken_or_told_by_every_row_in_bounded_time(text: str) -> None:
    started = time.thread_time()
    check(parse_annotations({f"{DOMAINS[0]}/{row.key}": text for row in TABLE}, "c0"))
    assert time.thread_time() - started < ROUNDS / MEASURED_ROUNDS * reference_seconds(MEASURED_ROUNDS)


@given(ANNOTATIONS, st.sampled_from(["c0", "", "c0/pod", "\x00", "é"]))
def test_what_is_wrong_with_one_annotation_leaves_the_others_alone(annotations: dict[str, str], container: str) -> None:
    parsed = parse_annotations(annotations, container)
    check(parsed)
    assert {problem.key for problem in parsed.problems} <= set(annotations)
    good = {f"{DOMAINS[0]}/resource-files": "true"}
    with_good = parse_annotations(annotations | good, container)
    assert (
        with_good.preferences.resource_files is True
        or any(key.startswith("resource-files") for key in annotations)
        or any("none of them counts" in problem.problem for problem in with_good.problems)
    )


NUMBERS = st.sampled_from([0, 1, 2, -1, 3, 999, 1000, 1024, 262144, 2**31, 2**62, -(2**63), 2**63 - 1]) | st.integers(
    -(2**63), 2**63 - 1
)
FIELDS = ("cpu_period", "cpu_quota", "cpu_shares", "memory_limit_in_bytes", "oom_score_adj")
RESOURCES = st.dictionaries(st.sampled_from(FIELDS), NUMBERS).map(
    lambda fields: pb.LinuxContainerResources(**fields)  # type: ignore[arg-type]  # real names
)
CGROUPS = st.sampled_from(["", "/kubepods/podu", "/kubepods/burstable/podu", "/kubepods/besteffort/podu"]) | st.text(
    max_size=20
)


def read(annotations: dict[str, str], cgroup: str, resources: pb.LinuxContainerResources) -> Request:
    sandbox = pb.PodSandboxConfig(annotations=annotations, linux=pb.LinuxPodSandboxConfig(cgroup_parent=cgroup))
    sandbox.metadata.uid = "u"
    message = pb.CreateContainerRequest()
    message.config.metadata.name = "c0"
    message.config.linux.resources.CopyFrom(resources)
    return read_create(message, sandbox, node_memory_bytes=8 << 30).request


@given(ANNOTATIONS, CGROUPS, RESOURCES, RESOURCES)
def test_any_message_is_a_request_that_can_be_kept_and_resized(
    annotations: dict[str, str], cgroup: str, resources: pb.LinuxContainerResources, resize: pb.LinuxContainerResources
) -> None:
    request = read(annotations, cgroup, resources)
    resized = merge_update(request, resize, node_memory_bytes=8 << 30)
    for known in (request, resized):
        assert known.cpu_request_mcpu >= 0
        assert known.memory_request_bytes >= 0
        assert min(known.cpu_limit_mcpu or 1, known.memory_limit_bytes or 1) > 0
        assert decode(Request, json.loads(json.dumps(encode(known)))) == known


@given(ANNOTATIONS, CGROUPS, RESOURCES)
def test_whatever_a_request_says_has_an_origin(
    annotations: dict[str, str], cgroup: str, resources: pb.LinuxContainerResources
) -> None:
    request = read(annotations, cgroup, resources)
    said = [
        f.name for f in fields(Preferences) if getattr(request.preferences, f.name) != getattr(Preferences(), f.name)
    ]
    said += ["affinities"] if request.affinities else []
    said += [name for name in ("cpu_limit_mcpu", "memory_limit_bytes") if getattr(request, name) is not None]
    known = dict(request.origins)
    assert set(said) | {"qos", "cpu_request_mcpu", "memory_request_bytes"} <= set(known)
    assert all(set(known[name].split(" and ")) <= set(annotations) for name in said if hasattr(Preferences(), name))


@given(ANNOTATIONS, CGROUPS, RESOURCES)
def test_any_message_gets_a_decision(
    annotations: dict[str, str], cgroup: str, resources: pb.LinuxContainerResources
) -> None:
    assert isinstance(POLICY.decide(Allocations(), read(annotations, cgroup, resources)), Placed | Rejected)


@pytest.mark.parametrize("key", KEYS)
@given(text=TEXTS | VALUES.map(lambda v: as_json({"containers": {"c0": v}})))
def test_exact_resources_of_any_shape_are_taken_or_told(key: str, text: str) -> None:
    resources = pb.LinuxContainerResources(cpu_shares=204, oom_score_adj=900)
    assert read({key: text}, "/kubepods/burstable/podu", resources).cpu_request_mcpu == 200


def nested(path: tuple[str, ...], value: object) -> object:
    for key in reversed(path):
        value = {key: value}
    return value


def outcome(text: str) -> Config | ConfigError:
    try:
        return parse_config(text, "f.yaml")
    except ConfigError as error:
        return error


@pytest.mark.parametrize("known", known_options(), ids=lambda known: known.key)
@given(value=VALUES | st.sampled_from(NASTY))
@settings(max_examples=FEW)
def test_an_option_takes_a_value_or_names_itself_and_its_line(known: Known, value: object) -> None:
    found = outcome("\n" + as_yaml(nested(known.path, value)))
    if isinstance(found, ConfigError):
        assert found.path == "f.yaml"
        assert found.problem
        # A text that is no YAML at all, or another layout, is told of before any option is looked at.
        is_early = "not YAML" in found.problem or "nested" in found.problem or known.key == "policy"
        assert is_early or (found.key.startswith(known.key) and found.line >= 2)
        return
    try:
        policy_options(found, MACHINE)
    except ConfigError as error:
        assert error.key.startswith(("availableResources", "reservedResources", "memoryKinds"))


@pytest.mark.parametrize("known", known_options(), ids=lambda known: known.key)
def test_a_misspelt_option_is_refused_with_its_name_line_and_what_was_meant(known: Known) -> None:
    wrong = (*known.path[:-1], f"{known.path[-1]}x")
    found = outcome("\n" + as_yaml(nested(wrong, 1)))
    assert isinstance(found, ConfigError)
    assert (found.line >= 2, found.key) == (True, ".".join(wrong))
    assert f"did you mean {known.key}?" in found.problem


@given(TEXTS)
def test_any_text_is_a_configuration_or_a_named_error(text: str) -> None:
    found = outcome(text)
    assert isinstance(found, Config) or (found.path == "f.yaml" and found.problem)


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_the_worst_configurations_are_refused_in_bounded_time(text: str) -> None:
    started = time.thread_time()
    outcome(text)
    outcome(f"annotationDomains: [{json.dumps(text)}]\nlog: {{level: {json.dumps(text)}}}")
    assert time.thread_time() - started < ROUNDS / MEASURED_ROUNDS * reference_seconds(MEASURED_ROUNDS)


@given(st.dictionaries(st.sampled_from([*file_names("n", "g"), "policy", "apiVersion"]), TEXTS | VALUES), TEXTS)
def test_any_object_around_a_configuration_is_read_or_refused(data: dict[str, object], kind: str) -> None:
    for known in ("ConfigMap", "TopologyAwarePolicy", kind):
        found = outcome(as_yaml({"kind": known, "data": data, "spec": data}))
        assert isinstance(found, Config) or found.problem
