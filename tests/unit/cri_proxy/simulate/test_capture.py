import json
from pathlib import Path

import pytest

from cri_proxy.codec import encode
from cri_proxy.http.routes import config_json
from cri_proxy.simulate.capture import read_captured
from cri_proxy.simulate.node import SimulatedNode
from cri_proxy.simulate.runner import ScenarioRunner
from cri_proxy.simulate.scenario.parse import parse_scenario
from cri_proxy.state.capture import STATE, state_json
from sysfs.archives.capture import capture
from sysfs.errors import MachineSourceError
from tests.fakes.machines import small_machine
from tests.fakes.sysfs_tree import write_tree

STORY = """\
machine: {packages: 2, cores: 4, memory: 8Gi}
config: {reservedResources: {cpu: "1"}}
steps:
- create: {pod: web, count: 2, qos: guaranteed, containers: [{name: c, cpu: "2", memory: 64Mi}]}
- create: {pod: log, containers: [{name: c, cpu_request: 100m}]}
"""


async def captured(file: Path, story: str = STORY) -> None:
    """Write the archive of a node on which the steps of a story were played."""
    runner = ScenarioRunner(parse_scenario(story))
    await runner.open()
    async for outcome in runner.run():
        assert outcome.ok
    ledger = runner.simulated.node.context.ledger
    plain = state_json(config_json(runner.simulated.config), ledger.sandboxes.values())
    plain["rows"] = [encode(row, sparse=True) for row in ledger.rows()]
    root = write_tree(file.parent / f"{file.name}.tree", runner.machine)
    capture(file, root, {STATE: json.dumps(plain).encode()})
    await runner.close()


async def test_a_captured_node_stands_again_and_nothing_moves(tmp_path: Path) -> None:
    await captured(tmp_path / "n.tar.xz")
    found = read_captured(tmp_path / "n.tar.xz")
    node = SimulatedNode(found.machine, found.options)
    node.let_stand(found.saved)
    await node.recover()
    assert await node.settle() == ()
    ledger = node.node.context.ledger
    assert {row.key: row.grant for row in ledger.active()} == {row.key: row.grant for row in found.saved.rows}
    assert (len(found.saved.rows), node.runtime.update_count, ledger.unsettled()) == (3, 0, ())
    await node.close()


def test_an_archive_without_a_state_says_how_to_get_one(tmp_path: Path) -> None:
    capture(tmp_path / "n.tar.xz", write_tree(tmp_path / "tree", small_machine()))
    with pytest.raises(MachineSourceError, match="--state"):
        read_captured(tmp_path / "n.tar.xz")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"options": {}, "rows": [1], "sandboxes": []}', "[" * 100_000])
def test_a_damaged_state_is_named(tmp_path: Path, text: str) -> None:
    capture(tmp_path / "n.tar.xz", write_tree(tmp_path / "tree", small_machine()), {STATE: text.encode()})
    with pytest.raises(MachineSourceError, match="cannot be read"):
        read_captured(tmp_path / "n.tar.xz")
