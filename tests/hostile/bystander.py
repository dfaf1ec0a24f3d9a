"""An innocent pod and its client, on a connection of their own: all that they ask during an attack is answered."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, KubeletNode, PodSpec
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.runtime.client import RuntimeClient
from tests.testbed.pod_kubelet import PodKubelet
from tests.testbed.wait import finish, until

# Not what a call takes (see Bounds for that), but when it counts as never answered: on a busy machine.
ANSWER_SECONDS = 30.0
PAUSE_SECONDS = 0.02
ROUNDS_A_LIFE = 10  # a container is made, started and removed in every tenth round
EXTRA = ContainerSpec("extra")


class Bystander:
    """``rounds`` and ``lives`` count what it did, ``failures`` are what went wrong with its calls."""

    def __init__(self, endpoint: str, node: KubeletNode, spec: PodSpec) -> None:
        self._client = RuntimeClient(endpoint)
        self.kubelet = PodKubelet(self._client, node)
        self.spec = spec
        self.pod: RunningPod | None = None
        self.rounds = self.lives = 0
        self.failures: list[str] = []
        self.makes_containers = True
        self._is_calling = False

    @property
    def container_id(self) -> str:
        assert self.pod is not None
        return self.pod.containers[0][1]

    async def start(self) -> None:
        self.pod = await self.kubelet.run_pod(self.spec)

    async def close(self) -> None:
        await self._client.close()

    @asynccontextmanager
    async def calling(self) -> AsyncIterator[None]:
        """Call again and again inside the block; at its end a call that is under way is not given up."""
        self._is_calling = True
        task = asyncio.get_running_loop().create_task(self._call())
        try:
            yield
        finally:
            self._is_calling = False
            await finish(asyncio.wait((task,)))

    async def goes_on(self) -> None:
        """Wait until it has done a little of everything from here on, or an attempt has failed."""
        rounds, lives = self.rounds + 2, self.lives + int(self.makes_containers)

        async def done() -> bool:
            return bool(self.failures) or (self.rounds >= rounds and self.lives >= lives)

        await until("the bystander's calls go on", done, seconds=10 * ANSWER_SECONDS)

    async def _call(self) -> None:
        while self._is_calling:
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    await self._look()
                if self.makes_containers and self.rounds % ROUNDS_A_LIFE == 0:
                    async with asyncio.timeout(ANSWER_SECONDS):
                        await self._live()
                self.rounds += 1
            except (CallFailed, RuntimeUnavailable, TimeoutError) as error:
                self.failures.append(f"in round {self.rounds}: {str(error)[:300] or 'no answer'}")
            await asyncio.sleep(PAUSE_SECONDS)

    async def _look(self) -> None:
        await self.kubelet.call("Version", pb.VersionRequest(), pb.VersionResponse)
        await self.kubelet.call("ListContainers", pb.ListContainersRequest(), pb.ListContainersResponse)
        await self.kubelet.status(self.container_id)

    async def _live(self) -> None:
        assert self.pod is not None
        self.lives += 1
        container_id = await self.kubelet.create(self.spec, EXTRA, self.pod.sandbox_id, attempt=self.lives)
        await self.kubelet.start(container_id)
        await self.kubelet.stop(container_id)
        await self.kubelet.remove(container_id)
