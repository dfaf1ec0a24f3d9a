"""Check a scenario's steps before it runs: every pod and option that a step names must exist by then. Pure.

A refusal by the node (the machine is full, the container has ended) is a result. A name that no earlier step created,
or an option that no running daemon accepts, is a mistake in the scenario.
"""

from collections.abc import Mapping

from cri_proxy.config.model import known_options
from cri_proxy.cri_client.pods import ContainerRole
from cri_proxy.simulate.pods import pod_of, pods_named
from cri_proxy.simulate.scenario import model
from cri_proxy.yaml_fields import DocumentError

# Containers by (namespace, pod), as the steps so far create them.
_Names = dict[tuple[str, str], tuple[str, ...]]


def check_steps(scenario: model.Scenario) -> None:
    """Raise DocumentError for the first step with a mistake, with its line and its number as in the results."""
    names: _Names = {}
    for index, step in enumerate(scenario.steps):
        problem = _problem(step.action, names)
        if problem:
            raise DocumentError(scenario.source, step.line, f"step {index}: {problem}")
        if isinstance(step.action, model.Create):
            key = pod_of(step.action, names)
            names[key] = (*names.get(key, ()), *(c.name for c in step.action.containers))


def _problem(action: model.Action, names: _Names) -> str:
    """Return the error of this step; '' for none."""
    match action:
        case model.OnContainer() | model.Resize() | model.Tamper():
            pod, _, name = action.container.rpartition("/")
            return _unknown_pod(pod, names) or _unknown_container(pod, name, names)
        case model.Delete():
            return _unknown_pod(action.pod, names)
        case model.Reconfigure():
            return _needs_restart(action.config)
        case model.Create():
            return _premature(action, names)
    return ""


def _premature(create: model.Create, names: _Names) -> str:
    """Return the problem with an ephemeral container of a pod that does not run yet, else ''."""
    early = [c.name for c in create.containers if c.role is ContainerRole.EPHEMERAL]
    if early and pod_of(create, names) not in names:
        return f"{early[0]} is an ephemeral container: create pod {create.pod} without it before"
    return ""


def _unknown_pod(reference: str, names: _Names) -> str:
    if pods_named(reference, names):
        return ""
    there = ", ".join(dict.fromkeys(name for _, name in names))
    return f"there is no pod {reference}; the steps before create {there or 'none'}"


def _unknown_container(pod: str, name: str, names: _Names) -> str:
    there = [container for key in pods_named(pod, names) for container in names[key]]
    if name in there:
        return ""
    return f"pod {pod} has no container {name}; the steps before create {', '.join(dict.fromkeys(there)) or 'none'}"


def _needs_restart(change: Mapping[str, object]) -> str:
    """Return the problem with an option that needs a restart, else ''. A group has only such options, or none."""
    # The daemon reads keys in any case.
    fixed = {known.path[0].casefold(): known.path[0] for known in known_options() if not known.option.is_reloadable}
    found = [fixed[key.casefold()] for key in change if key.casefold() in fixed]
    return f"{found[0]} cannot be reconfigured: it needs a restart of the daemon; set it in config:" if found else ""
