"""Disks that hang, and files that somebody else writes or damages."""

import asyncio
import os
import signal
from functools import partial
from pathlib import Path

from tests.fakes.secret_files import MARK, SECRETS
from tests.hostile.bounds import MIB
from tests.hostile.bystander import ANSWER_SECONDS
from tests.hostile.node import CONFIGURATION, AttackedNode
from tests.hostile.stories import ON_CONTAINERD_TOO
from tests.testbed.wait import until


@ON_CONTAINERD_TOO
async def test_a_configuration_that_is_replaced_by_what_is_none(node: AttackedNode) -> None:
    """The file becomes too long, then garbage, then a pipe: each is refused, and the daemon goes on as before."""
    async with node.under_attack():
        for damage in (b"x" * 64 * MIB, os.urandom(4096)):
            node.config.write_bytes(damage)
            node.daemon.send(signal.SIGHUP)
            await node.bystander.goes_on()
        node.config.unlink()
        os.mkfifo(node.config)
        node.daemon.send(signal.SIGHUP)
        await node.bystander.goes_on()
        node.config.unlink()
        node.config.write_text(CONFIGURATION)


@ON_CONTAINERD_TOO
async def test_root_only_files_among_those_of_devices(node: AttackedNode) -> None:
    """A plugin puts links and hard links to root-only files where devices are listed: no word of them is shown."""
    secrets, devices = node.directory / "secrets", node.directory / "devices"
    secrets.mkdir(mode=0o700)
    devices.mkdir(mode=0o755)
    for number, text in enumerate(SECRETS.values()):
        secret = secrets / f"{number}"
        secret.write_text(text)
        secret.chmod(0o600)
        (devices / f"{number}.yaml").hardlink_to(secret)
    (devices / "link.yaml").symlink_to("../secrets/0")
    (devices / "path.json").symlink_to(secrets / "0")
    await shown_of(node)  # which loads what writes metrics
    async with node.under_attack():
        for name in ("0.yaml", "link.yaml"):
            options = f"costs: {{dir: {devices}}}\ndevices: {{inventory: {devices / name}}}\n"
            node.config.write_text(f"{CONFIGURATION}{options}")
            node.daemon.send(signal.SIGHUP)
            await until("both are read", partial(are_read, node, name), seconds=ANSWER_SECONDS)
            shown = await shown_of(node)
            assert shown.count("no key of a cost file is understood") >= len(SECRETS)
            assert "is a link that leads out of its directory" in shown
            assert MARK not in shown
        node.config.write_text(CONFIGURATION)


async def are_read(node: AttackedNode, inventory: str) -> bool:
    status = await node.daemon.admin.status()
    names = [file.name for file in status.inventory_file.report.files] if status.inventory_file else []
    return names == [inventory] and status.costs is not None and len(status.costs.report.files) == len(SECRETS) + 2


async def shown_of(node: AttackedNode) -> str:
    """All that the daemon and its commands say: log, status, metrics, and what is asked on a terminal."""
    commands = (("status",), ("status", "-o", "json"), ("doctor",), ("check-config", str(node.config)))
    shown = [await asyncio.to_thread(Path.read_text, node.daemon.log)]
    shown += [await node.printed(*words) for words in commands]
    shown += [await served(node.daemon.admin.path, target) for target in ("/api/v1/status", "/metrics")]
    return "\n".join(shown)


async def served(socket: Path, target: str) -> str:
    reader, writer = await asyncio.open_unix_connection(str(socket))
    writer.write(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    assert answer.startswith("HTTP/1.1 200 ")
    return answer
