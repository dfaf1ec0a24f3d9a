"""Format the explanations of all pods of a workload: each container once, its pods grouped by outcome. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cri_proxy.cli.render.columns import paint, paragraph
from cri_proxy.cli.render.pool_tree import use_text
from cri_proxy.node.decision_log.summary import outcome_text
from cri_proxy.node.status.decision_views import Explanation
from cri_proxy.state.decisions import Outcome
from sysfs.text import plural, some

_POOLS_SHOWN = 8
_PODS_SHOWN = 4


@dataclass(frozen=True, slots=True)
class _Fate:
    """The outcome of a container, apart from where it is; ``why`` are sentences."""

    name: str
    outcome: str
    use: str
    why: tuple[str, ...] = ()


def is_workload(explanations: Sequence[Explanation]) -> bool:
    """Return whether these are of several pods that one workload made."""
    pods = {each.decision.key.pod_uid: each.decision.request.pod for each in explanations}
    made = {(each.decision.request.pod.namespace, each.workload_kind, each.workload) for each in explanations}
    has_maker = all(each.workload and each.workload_kind != "Pod" for each in explanations)
    return len(made) == 1 and has_maker and len({pod.name for pod in pods.values()}) == len(pods) > 1


def render_workload(explanations: Sequence[Explanation], *, colours: bool, width: int) -> str:
    """Return the containers of a workload, those of most pods first, with the pods of each outcome."""
    groups: dict[_Fate, list[Explanation]] = {}
    for each in explanations:
        groups.setdefault(_fate(each), []).append(each)
    first = explanations[0]
    pods = {each.decision.key.pod_uid for each in explanations}
    kind = first.workload_kind or "workload"
    title = f"{kind} {first.decision.request.pod.namespace}/{first.workload}: {plural(len(pods), 'pod')}"
    lines = [paint(title, "bold", colours=colours)]
    for fate, members in sorted(groups.items(), key=lambda group: (group[0].name, -len(group[1]), group[0].outcome)):
        lines += ["", *_group_lines(fate, members, colours, width)]
    example = min((str(each.decision.request.full_name) for each in explanations), default="")
    return "\n".join([*lines, "", *paragraph(f"one of them: cri-proxy explain {example}", "  ", first="", width=width)])


def _fate(each: Explanation) -> _Fate:
    held, decision = each.container, each.decision
    if held is None:
        # Figures of the moment differ from pod to pod, and the code of the reason does not.
        why = decision.reasons[0].code if decision.reasons else decision.failure
        outcome = f"{decision.outcome.value} ({why})" if why else decision.outcome.value
        return _Fate(decision.key.name, outcome, "")
    conditions = tuple(f"not exclusive: {c.text}; {c.remedy}" for c in each.not_exclusive)
    unmet = tuple(f"not as asked: {code}" for code in held.unmet)
    by = tuple(f"not Guaranteed: {text}" for text in each.not_guaranteed_by)
    return _Fate(decision.key.name, held.state, use_text(held), (*unmet, *conditions, *by, *decision.problems))


def _group_lines(fate: _Fate, members: Sequence[Explanation], colours: bool, width: int) -> list[str]:
    what = f"{fate.outcome}, {fate.use}" if fate.use else fate.outcome
    style = "green" if fate.use and not fate.why else "yellow"
    lines = [paint(f"{fate.name}: {len(members)} {what}", style, colours=colours)]
    pools = Counter(each.container.pool for each in members if each.container is not None and each.container.pool)
    where = [f"{count} in {pool}" for pool, count in sorted(pools.items(), key=lambda item: (-item[1], item[0]))]
    texts = [some(where, _POOLS_SHOWN)] if where else []
    texts += fate.why
    if not fate.use:
        texts.append(outcome_text(members[-1].decision))
        texts += dict.fromkeys(help_ for each in members for help_ in each.helps)
    if members[0].decision.outcome is Outcome.REFUSED or fate.why:
        texts.append(f"pods: {some(list(_pod_names(members)), _PODS_SHOWN)}")
    return lines + [line for text in texts for line in paragraph(text, "    ", first="  - ", width=width)]


def _pod_names(members: Iterable[Explanation]) -> Iterable[str]:
    return dict.fromkeys(each.decision.request.pod.name for each in members)
