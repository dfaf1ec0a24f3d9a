from cri_proxy.cri_client.pods import guaranteed
from cri_proxy.node.status.view import NodeView
from cri_proxy.steps import at_once
from tests.fakes.site import Site


async def test_the_history_has_decisions_and_ends_oldest_first(site: Site) -> None:
    first = await site.run("a", guaranteed("c", 2000))
    await site.run("b", guaranteed("c", 1000))
    await site.kubelet.remove_pod(first.sandbox_id)
    await site.node.settle()
    history = at_once(NodeView(site.node, name="worker-1").history_steps(0.0))
    assert [(event.pod, event.what) for event in history.events][-1] == ("a", "ended")
    assert ("b", "placed") in [(event.pod, event.what) for event in history.events]
    moments = [event.at_seconds for event in history.events]
    assert moments == sorted(moments)
    assert at_once(NodeView(site.node, name="worker-1").history_steps(float("inf"))).events == ()
