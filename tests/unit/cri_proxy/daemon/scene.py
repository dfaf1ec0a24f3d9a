"""A whole daemon in this process, whose runtime is started when the test says so, and what asks it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from cri_proxy.cri_client.pods import IMAGE, KubeletNode, PodSpec, guaranteed
from cri_proxy.daemon.app import Daemon
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.runtime.embedded.server import RuntimeServer
from tests.fakes.machines import small_machine
from tests.fakes.scripted_runtime import ScriptedRuntime
from tests.fakes.settings import TEXT, settings_in, settings_with
from tests.fakes.site import Silent
from tests.testbed.pod_kubelet import PodKubelet
from tests.testbed.wait import until

MACHINE = small_machine(hugepages={"2Mi": 16})  # metrics of huge pages are there where there are some


class Scene:
    def __init__(self, directory: Path, more: str) -> None:
        self.directory = directory
        self.log = Silent()
        self.settings = settings_in(directory, TEXT + more)
        self.runtime = ScriptedRuntime(MACHINE, image_names=(IMAGE,))
        self.server = self.new_server()

    def new_server(self) -> RuntimeServer:
        return RuntimeServer(self.runtime, f"unix://{self.directory}/runtime.sock")

    async def get(self, target: str) -> tuple[int, str]:
        reader, writer = await asyncio.open_unix_connection(self.settings.admin_socket, limit=1 << 20)
        writer.write(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read(-1)).decode().partition("\r\n\r\n")
        writer.close()
        return int(head.split(" ")[1]), body

    async def readiness(self) -> int:
        return (await self.get("/readyz"))[0]

    async def ready(self, status: int = 200) -> None:
        async def is_so() -> bool:
            return await self.readiness() == status

        await until(f"/readyz says {status}", is_so, seconds=20)

    async def run_pod(self, name: str = "web") -> None:
        client = RuntimeClient(self.settings.config.listen)
        caller = PodKubelet(client, KubeletNode(4 << 30, log_directory="", image=IMAGE))
        await caller.run_pod(PodSpec(name, (guaranteed("c", 2000),)))
        await client.close()


@asynccontextmanager
async def started(directory: Path, *, relay: str = "splice", more: str = "", http: str = "off") -> AsyncIterator[Scene]:
    scene = Scene(directory, more)
    settings = settings_with(scene.settings, relay=relay, http=http)
    daemon = Daemon(settings, log=scene.log, machine=MACHINE)
    try:
        await daemon.start()
        yield scene
    finally:
        await daemon.stop()
        await scene.server.stop()


async def with_runtime(scene: Scene) -> None:
    await scene.server.start()
    await scene.ready()
