from dataclasses import replace

from cri_proxy.cli.render.explain import render_explain
from cri_proxy.cli.render.workload import is_workload, render_workload
from cri_proxy.node.status.decision_views import ExplainView, Explanation
from cri_proxy.state.decisions import Outcome
from policies.answers import Condition
from policies.base import Reason
from tests.fakes.views import container, decision_record, explanation

QOS = Condition("qos", "the QoS class of its pod is Burstable", "make them equal")


def member(
    end: str, name: str = "c0", *, pool: str = "socket #0", conditions: tuple[Condition, ...] = ()
) -> Explanation:
    """A container of the pod web-5d4f9c7b8-END."""
    request, pod = decision_record().request, f"web-5d4f9c7b8-{end}"
    key = replace(request.container, pod_uid=f"uid-{end}", name=name)
    asked = replace(request, container=key, pod=replace(request.pod, uid=key.pod_uid, name=pod))
    plain = replace(explanation(request=asked, problems=()), workload="web", workload_kind="Deployment")
    held = container(name, "shared", "1", pool=pool, shared_mcpu=500)
    return replace(plain, container=held, not_exclusive=conditions)


def refusal(end: str, text: str) -> Explanation:
    plain = member(end)
    record = replace(plain.decision, outcome=Outcome.REFUSED, granted=None, reasons=(Reason("cpu-full", text),))
    return replace(plain, decision=record, container=None, helps=("with a request of 1 CPUs it would fit",))


def rendered(*members: Explanation) -> str:
    return render_workload(members, colours=False, width=80)


def test_pods_of_one_outcome_are_counted_and_not_listed() -> None:
    text = rendered(member("aaaa1"), member("aaaa2"), member("aaaa3", pool="socket #1"))
    assert text.splitlines()[:4] == [
        "Deployment default/web: 3 pods",
        "",
        "c0: 3 running, 500m shared",
        "  - 2 in socket #0, 1 in socket #1",
    ]
    assert text.endswith("one of them: cri-proxy explain default/web-5d4f9c7b8-aaaa1/c0")
    assert "pods:" not in text


def test_what_is_amiss_is_told_with_its_remedy_and_the_pods() -> None:
    text = rendered(member("aaaa1", conditions=(QOS,)), member("aaaa2"))
    assert "  - not exclusive: the QoS class of its pod is Burstable; make them equal" in text
    assert "  - pods: web-5d4f9c7b8-aaaa1\n" in text


def test_refusals_that_differ_in_figures_are_one_group() -> None:
    text = rendered(member("aaaa1"), refusal("aaaa2", "2 free"), refusal("aaaa3", "1 free"))
    assert "c0: 2 refused (cpu-full)\n  - refused: 1 free\n  - with a request of 1 CPUs it would fit" in text


def test_only_different_pods_of_one_workload_are_a_workload() -> None:
    one, other = member("aaaa1"), member("aaaa2")
    assert is_workload((one, other))
    assert not is_workload((one, member("aaaa1", "c1")))
    assert not is_workload((one, replace(other, workload="shop")))
    assert not is_workload((replace(one, workload_kind="Pod"), replace(other, workload_kind="Pod")))


def test_explain_shows_a_workload_instead_of_a_choice() -> None:
    view = ExplainView((member("aaaa1"), member("aaaa2")), ("Deployment default/web",))
    assert render_explain(view).startswith("Deployment default/web: 2 pods")
