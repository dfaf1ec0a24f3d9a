"""What containers get by docs/device-plugin.md: its command is run, and a kubelet asks it for pairs.

``python -m tests.golden.device_plugin_page`` writes the answers into the page after they have changed on purpose.
"""

import asyncio
import re
import shlex
from io import StringIO
from pathlib import Path

from cri_proxy.cli.agents.device_plugin import settings_of
from cri_proxy.cli.help.parser import command_parser, load_command
from cri_proxy.clock import SystemClock
from cri_proxy.kubelet.device_plugin.plugin import DevicePlugin
from cri_proxy.logs import configure_logging
from tests.fakes.device_kubelet import DeviceKubelet
from tests.fakes.waiting import holds
from tests.golden.costs_page import ROOT

PAGE = ROOT / "docs" / "device-plugin.md"
NAME = "device-plugin"
CONTAINERS = 4
_COMMAND = re.compile(rf"    cri-proxy {NAME} (--inventory configs/(?:.*\\\n)*.*)\n")
_ANSWERS = re.compile(r"(?:    gpu-.*\n)+")


def words_of(page: str) -> list[str]:
    """The options of the command that the page runs, with paths of this tree."""
    found = _COMMAND.search(page)
    assert found is not None
    return [
        str(ROOT / word) if word.startswith("configs/") else word for word in shlex.split(found[1].replace("\\\n", " "))
    ]


async def answers(words: list[str], directory: Path) -> str:
    """A line for each container: its ids, then its variables."""
    args = command_parser(NAME, load_command(NAME)).parse_args(
        [*words, "--plugin-dir", str(directory / "plugins"), "--sysfs-root", str(directory)]
    )
    settings = settings_of(args)
    log = configure_logging("info", "json", StringIO())
    stop = asyncio.Event()
    kubelet = DeviceKubelet(directory / "plugins")
    await kubelet.start()
    async with asyncio.TaskGroup() as group:
        group.create_task(DevicePlugin(settings, log=log, clock=SystemClock()).serve(stop, asyncio.Event()))
        resource = settings.resources[0].name
        await holds("the kubelet knows the resource", lambda: kubelet.knows(resource))
        lines = []
        for _ in range(CONTAINERS):
            ids, answer = await kubelet.allocate(resource, 2)
            envs = (f"{name}={value}" for name, value in sorted(answer.envs.items()))
            lines.append(f"    {'  '.join([' '.join(sorted(ids)), *envs])}\n")
        stop.set()
    await kubelet.stop()
    return "".join(lines)


async def answered(page: str, directory: Path) -> str:
    """The page with what its command answers."""
    found = await answers(words_of(page), directory)
    return _ANSWERS.sub(lambda _: found, page, count=1)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        PAGE.write_text(asyncio.run(answered(PAGE.read_text(), Path(made))))
