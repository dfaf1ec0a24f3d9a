"""The daemon in this process, on a machine that is only described."""

from pathlib import Path

from tests.tryout.embedded import EmbeddedDaemon, described_machine


def test_the_described_machine_has_two_packages_four_nodes_and_isolated_cpus() -> None:
    machine = described_machine()
    assert (len(machine.packages), len(machine.nodes), len(machine.online)) == (2, 4, 16)
    assert str(machine.isolated) == "3,7"


async def test_it_is_ready_when_entered_and_gone_when_left(tmp_path: Path) -> None:
    options = ("--available-resources", "cpu=cpuset:0-15")
    async with EmbeddedDaemon(tmp_path, machine=described_machine(), options=options) as daemon:
        assert {pool.name for pool in (await daemon.admin.status()).pools} >= {"root", "socket #0", "socket #1"}
    assert not await daemon.admin.decides()
