"""Options of the kubelet's managers: name, value, stage and gate."""

import pytest

from tests.fakes.kubelet_starts import STATIC, problems, reasons, settings

UNCORE = "prefer-align-cpus-by-uncorecache"
NEED = "options that need featureGates.CPUManagerPolicyAlphaOptions: true"
ALPHA = "featureGates: {CPUManagerPolicyAlphaOptions: true}"


@pytest.mark.parametrize(
    ("options", "version", "why"),
    [
        ("full-pcpus-only: 'True'", (1, 30), ""),
        ("full-pcpus-only: 'yes'", None, "must be true or false"),
        ("strict-cpu-reservation: 'true'", (1, 31), "options that kubelet 1.31 does not know"),
        (
            "strict-cpu-reservation: 'true'",
            (1, 32),
            "options that need featureGates.CPUManagerPolicyAlphaOptions: true",
        ),
        ("strict-cpu-reservation: 'true'", (1, 33), ""),
        (
            f"{UNCORE}: 'true'",
            (1, 33),
            f"{NEED} in kubelet 1.33",
        ),
        (f"{UNCORE}: 'true'", (1, 34), ""),
        (
            "align-by-socket: 'true'",
            (1, 36),
            f"{NEED} in kubelet 1.36",
        ),
        ("align-by-socket: 'true'", (1, 37), ""),
        ("align-by-socket: 'true'", None, ""),
    ],
)
def test_an_option_is_judged_by_its_value_and_by_the_version(
    options: str, version: tuple[int, int] | None, why: str
) -> None:
    text = f"{STATIC}cpuManagerPolicyOptions: {{{options}}}\n"
    found = problems(settings(text), version)
    assert [why in problem.text for problem in found] == ([True] if why else [])
    assert problems(settings(text + ALPHA), version) == (found if "need" not in why else [])


@pytest.mark.parametrize(
    ("value", "version", "why"),
    [
        ("12", (1, 31), ""),
        ("7", (1, 31), "must be a number of at least 8"),
        ("many", (1, 31), "must be a number of at least 8"),
        ("12", (1, 30), "options that kubelet 1.30 does not know"),
    ],
)
def test_the_limit_of_numa_nodes_is_judged(value: str, version: tuple[int, int], why: str) -> None:
    options = f'topologyManagerPolicyOptions: {{max-allowable-numa-nodes: "{value}"}}'
    found = problems(settings(f"topologyManagerPolicy: restricted\n{options}"), version)
    assert [why in problem.text for problem in found] == ([True] if why else [])


def test_options_exclude_each_other_in_any_spelling_of_true() -> None:
    options = 'cpuManagerPolicyOptions: {full-pcpus-only: "1", distribute-cpus-across-cores: "T"}'
    (found,) = problems(settings(f"{STATIC}{options}"))
    assert "exclude each other" in found.text


BETA_OFF = "featureGates: {CPUManagerPolicyBetaOptions: false}"


@pytest.mark.parametrize(
    ("option", "version", "is_taken"),
    [
        ("full-pcpus-only", (1, 32), False),
        ("full-pcpus-only", (1, 33), True),
        ("distribute-cpus-across-numa", (1, 35), False),
        ("strict-cpu-reservation", (1, 34), False),
        ("strict-cpu-reservation", (1, 35), True),
        (UNCORE, (1, 35), False),
        (UNCORE, (1, 36), True),
        (UNCORE, None, True),
    ],
)
def test_a_beta_option_is_not_taken_once_its_gate_is_off(
    option: str, version: tuple[int, int] | None, is_taken: bool
) -> None:
    text = f'{STATIC}cpuManagerPolicyOptions: {{{option}: "true"}}\n'
    assert reasons(text, version) == ""
    why = reasons(text + BETA_OFF, version)
    assert ("options that need featureGates.CPUManagerPolicyBetaOptions: true" in why) != is_taken


@pytest.mark.parametrize("version", [None, (1, 31)])
def test_no_option_is_taken_once_the_gate_of_all_is_off(version: tuple[int, int] | None) -> None:
    """The Topology Manager's with the policy none too: the gate is looked at before the manager is made."""
    off = "featureGates: {CPUManagerPolicyOptions: false, TopologyManagerPolicyOptions: false}"
    options = 'cpuManagerPolicyOptions: {full-pcpus-only: "true"}\ntopologyManagerPolicyOptions: {a: "b"}'
    found = problems(settings(f"{STATIC}{options}\n{off}"), version)
    assert [each.text.partition(":")[0] for each in found] == [
        "cpuManagerPolicyOptions need featureGates.CPUManagerPolicyOptions",
        "topologyManagerPolicyOptions need featureGates.TopologyManagerPolicyOptions",
    ]
    assert [problems(settings(f"{STATIC}{off}"), version)] == [[]]


def test_caches_and_an_even_spread_over_nodes_exclude_each_other() -> None:
    text = f'{STATIC}cpuManagerPolicyOptions: {{{UNCORE}: "true", distribute-cpus-across-numa: "true"}}'
    assert "exclude each other: " in reasons(text)
    assert reasons(text.replace('numa: "true"', 'numa: "false"')) == ""


def test_sockets_are_aligned_only_where_none_is_without_a_node() -> None:
    found = settings(f'{STATIC}cpuManagerPolicyOptions: {{align-by-socket: "true"}}')
    (problem,) = problems(found, nodes="0", packages=2)
    assert "not on a machine of 2 packages and 1 NUMA nodes" in problem.text
    assert problems(found, nodes="0-1", packages=2) == problems(found, nodes="", packages=0) == []


@pytest.mark.parametrize(
    ("nodes", "limit", "count"),
    [("0-7", "", 0), ("0-8", "", 1), ("0-8", "9", 0), ("0-9", "9", 1), ("", "", 0)],
)
def test_the_topology_manager_allows_eight_numa_nodes_or_what_its_option_says(
    nodes: str, limit: str, count: int
) -> None:
    options = f'\ntopologyManagerPolicyOptions: {{max-allowable-numa-nodes: "{limit}"}}' if limit else ""
    found = problems(settings(f"topologyManagerPolicy: best-effort{options}"), nodes=nodes)
    assert len(found) == count
    assert all(str(edit) == "remove topologyManagerPolicy from /k.yaml" for each in found for edit in each.edits)
    assert problems(settings("topologyManagerPolicy: none"), nodes=nodes) == []


def test_options_of_a_kubelet_that_is_newer_than_what_was_read_are_not_judged_by_name() -> None:
    text = f'{STATIC}cpuManagerPolicyOptions: {{a-new-one: "true"}}'
    assert reasons(text, (1, 37)) == ""
    assert "does not know" in reasons(text, (1, 36))
