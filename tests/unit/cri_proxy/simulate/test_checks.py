import pytest

from cri_proxy.config.model import known_options
from cri_proxy.simulate.checks import check_steps
from cri_proxy.simulate.scenario.parse import parse_scenario
from cri_proxy.yaml_fields import DocumentError

OWN = "create: {pod: own, containers: [{name: c0}]}"
OTHER = "create: {pod: own, namespace: other, containers: [{name: c1}]}"


def check(*steps: str) -> None:
    lines = "".join(f"- {step}\n" for step in steps)
    check_steps(parse_scenario(f"machine: host\nsteps:\n{lines}", "s.yaml"))


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("stop: web/c0", "there is no pod web; the steps before create own"),
        ("delete: web", "there is no pod web; the steps before create own"),
        ("exit: own/c1", "pod own has no container c1; the steps before create c0"),
        ("update: {container: own/c9, cpu: 1}", "pod own has no container c9; the steps before create c0"),
        ("restart-container: elsewhere/own/c0", "there is no pod elsewhere/own; the steps before create own"),
        ("tamper: {container: own/c9, cpus: 1}", "pod own has no container c9; the steps before create c0"),
        (
            "create: {pod: web, containers: [{name: sh, ephemeral: true}]}",
            "sh is an ephemeral container: create pod web without it before",
        ),
        ("reconfigure: {LISTEN: 'unix:///x'}", "listen cannot be reconfigured: it needs a restart of the daemon"),
    ],
)
def test_a_step_that_cannot_be_meant_is_refused_with_its_line_and_number(step: str, problem: str) -> None:
    with pytest.raises(DocumentError) as caught:
        check(OWN, step)
    assert str(caught.value).startswith(f"s.yaml:4: step 1: {problem}")


def test_only_steps_before_count() -> None:
    with pytest.raises(DocumentError, match=r"step 0: there is no pod own; the steps before create none"):
        check("delete: own", OWN)


@pytest.mark.parametrize("step", ["delete: own", "stop: own/c0", "stop: default/own/c0", "exit: own/c0"])
def test_what_has_gone_is_for_the_node_to_refuse(step: str) -> None:
    check(OWN, "delete: own", step)


def test_a_pod_without_a_namespace_is_the_one_of_that_name() -> None:
    check(OTHER, OWN, "stop: other/own/c0", "stop: own/c1")
    with pytest.raises(DocumentError, match="pod default/own has no container c1; the steps before create c0"):
        check(OWN, OTHER, "stop: default/own/c1")


@pytest.mark.parametrize("change", ["{reservedResources: {cpu: 1}}", "{bogus: 1}", "{log: {level: debug}}"])
def test_what_the_daemon_answers_itself_is_left_to_it(change: str) -> None:
    check(f"reconfigure: {change}")


def test_a_group_of_options_needs_a_restart_as_a_whole_or_not_at_all() -> None:
    fixed = {known.path[0] for known in known_options() if not known.option.is_reloadable}
    assert [known.key for known in known_options() if known.option.is_reloadable and known.path[0] in fixed] == []


def test_an_option_of_such_a_group_is_refused() -> None:
    with pytest.raises(DocumentError, match="httpTLS cannot be reconfigured: it needs a restart"):
        check("reconfigure: {httpTLS: {key: /k}}")
