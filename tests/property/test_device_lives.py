"""Lives of pods that crash, restart and hand devices on: no device leaves its pod before that one's sandbox stops."""

from random import Random

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from sysfs.model import Machine
from tests.fakes.device_lives import DeviceLife
from tests.fakes.machines import machines, random_machine

STEPS = 200
# A life is shorter to play than to shrink, and its seed tells all there is to tell.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


async def lived(machine: Machine, seed: int) -> DeviceLife:
    life = DeviceLife(machine, seed)
    await life.open(life.look)
    for _ in range(STEPS):
        await life.step()
    return life


@settings(max_examples=10, phases=PHASES, deadline=None)
@given(machines(max_cpus=16), st.integers(0, 2**32))
async def test_no_device_leaves_its_pod_before_its_sandbox_stops(machine: Machine, seed: int) -> None:
    life = await lived(machine, seed)
    while life.pods:
        await life.leave()
    await life.node.settle()
    assert list(life.node.context.ledger.rows()) == []


async def test_the_lives_have_what_could_take_a_device_from_its_pod() -> None:
    """Else the rule could hold for want of cases."""
    life = await lived(random_machine(Random(1), max_cpus=16), 1)
    assert life.met == {"again", "handed on", "refused"}
