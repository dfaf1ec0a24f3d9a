"""CPUs and memory of containers of every kind, all running at once."""

from cri_proxy.cri_client.pods import PodSpec, guaranteed
from tests.vm.stories.pods import shared
from tests.vm.stories.stage import Stage

PODS = (
    PodSpec("whole", (guaranteed("one", 1000), guaranteed("two", 2000), guaranteed("mixed", 2500))),
    PodSpec(
        "together",
        (shared("alone"), shared("front"), shared("back")),
        annotations=(("cri-proxy.io/affinity", "back: [front]"),),
    ),
    PodSpec("apart", (shared("front"), shared("back")), annotations=(("cri-proxy.io/anti-affinity", "back: [front]"),)),
    PodSpec("system", (shared("agent"),), namespace="kube-system"),
)


async def placement(stage: Stage) -> None:
    """Start them all, then look."""
    for spec in PODS:
        await stage.run(spec)
    await stage.note_at_rest("placement")
