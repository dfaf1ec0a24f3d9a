"""Hyperthreads: a container that owns whole cores, one that hides the second threads, and one that shares so."""

from cri_proxy.cri_client.pods import PodSpec, guaranteed
from tests.vm.stories.pods import shared
from tests.vm.stories.stage import Stage

OWNERS = PodSpec(
    "owners",
    (guaranteed("hides", 2000), guaranteed("owns", 3000)),
    annotations=(
        ("hyperthreads.cri-proxy.io/container.hides", "hide"),
        ("hyperthreads.cri-proxy.io/container.owns", "own-core"),
    ),
)
HALVES = PodSpec("halves", (shared("c0"),), annotations=(("cri-proxy.io/hyperthreads", "hide"),))


async def threads(stage: Stage) -> None:
    """Two that share are there first; the cores are taken from them."""
    await stage.run(PodSpec("sharer", (shared("c0"),)))
    await stage.run(HALVES)
    await stage.run(OWNERS)
    await stage.note_at_rest("threads")
