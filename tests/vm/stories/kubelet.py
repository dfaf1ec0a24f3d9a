"""A kubelet as far as a node's installer can tell: a program that keeps to the endpoint which it was started with.

It runs the pods of its manifests, says in the Node whether the runtime answers, and renews the Node's Lease. Started
again it takes its pods over from the runtime, as the kubelet does. It restarts no container.
"""

import argparse
import asyncio
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client import pods
from cri_proxy.cri_client.pods import ContainerSpec, KubeletNode, PodSpec
from cri_proxy.errors import CriProxyError
from cri_proxy.kube_api.access import access_of
from cri_proxy.kube_api.client import MERGE_PATCH, ApiClient
from cri_proxy.runtime.client import RuntimeClient
from sysfs.quantity import parse_bytes, parse_mcpu
from tests.testbed.pod_kubelet import PodKubelet

NAME = "vm"
NODE, HEARTBEAT = f"/api/v1/nodes/{NAME}", f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NAME}"
MANIFESTS = Path("/etc/kubernetes/manifests")
ACCOUNT = Path("/var/lib/kubelet/account")  # in the place of the projected volume with a pod's account
# While this file is there, the node is not Ready on another endpoint than this one
PARTICULAR = Path("/etc/kubernetes/ready-only-on")
PAUSE_SECONDS = 2.0
CALL_SECONDS = 120.0
Plain = dict[str, Any]


def pod_of(manifest: Plain) -> PodSpec:
    """What the messages need of a pod."""
    meta = manifest["metadata"]
    annotations = tuple(sorted((meta.get("annotations") or {}).items()))
    containers = tuple(_container(each) for each in manifest["spec"]["containers"])
    return PodSpec(meta["name"], containers, meta.get("namespace", "default"), annotations)


def _container(container: Plain) -> ContainerSpec:
    given = container.get("resources") or {}
    requests, limits = given.get("requests") or {}, given.get("limits") or {}
    cpus = [parse_mcpu(str(each.get("cpu", 0))) for each in (requests, limits)]
    memory = [parse_bytes(str(each.get("memory", 0))) for each in (requests, limits)]
    return ContainerSpec(container["name"], cpus[0], cpus[1], memory[0], memory[1])


def sandbox_of(manifest: Plain, node: KubeletNode) -> pb.PodSandboxConfig:
    """The sandbox, in the host's pid namespace and privileged where a container wants so."""
    config = pods.sandbox_config(pod_of(manifest), node)
    security = config.linux.security_context
    security.namespace_options.pid = _pid(manifest)
    security.privileged = any(_is_privileged(each) for each in manifest["spec"]["containers"])
    return config


def create_request(manifest: Plain, container: Plain, sandbox_id: str, node: KubeletNode) -> pb.CreateContainerRequest:
    """A container with its image, arguments, variables and directories of the host."""
    pod, of_image = pod_of(manifest), replace(node, image=container.get("image", node.image))
    request = pods.create_request(pod, _container(container), sandbox_id, node=of_image)
    config, security = request.config, request.config.linux.security_context
    request.sandbox_config.CopyFrom(sandbox_of(manifest, node))
    security.namespace_options.pid = _pid(manifest)
    if "args" in container:
        del config.command[:]
        config.args.extend(container["args"])
    del config.envs[:]
    config.envs.extend(pb.KeyValue(key=key, value=value.encode()) for key, value in _environment(container))
    if _is_privileged(container):
        security.privileged = True
        del security.masked_paths[:], security.readonly_paths[:]
    security.readonly_rootfs = bool((container.get("securityContext") or {}).get("readOnlyRootFilesystem"))
    config.mounts.extend(_mounts(manifest["spec"], container))
    return request


def _pid(manifest: Plain) -> pb.NamespaceMode:
    return pb.NODE if manifest["spec"].get("hostPID") else pb.CONTAINER


def _is_privileged(container: Plain) -> bool:
    return bool((container.get("securityContext") or {}).get("privileged"))


def _environment(container: Plain) -> Iterator[tuple[str, str]]:
    yield from ((key, os.environ[key]) for key in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"))
    fields = {"spec.nodeName": NAME}
    for each in container.get("env") or ():
        yield each["name"], each["value"] if "value" in each else fields[each["valueFrom"]["fieldRef"]["fieldPath"]]


def _mounts(spec: Plain, container: Plain) -> Iterator[pb.Mount]:
    volumes = {each["name"]: each["hostPath"]["path"] for each in spec.get("volumes") or ()}
    propagation = {"HostToContainer": pb.PROPAGATION_HOST_TO_CONTAINER}
    for each in container.get("volumeMounts") or ():
        yield pb.Mount(
            container_path=each["mountPath"],
            host_path=volumes[each["name"]],
            propagation=propagation[each["mountPropagation"]],
        )
    if "serviceAccountName" in spec:
        yield pb.Mount(
            container_path="/var/run/secrets/kubernetes.io/serviceaccount", host_path=str(ACCOUNT), readonly=True
        )


class NodeKubelet:
    """The pods of this node by its manifests, and what the cluster hears of it."""

    def __init__(self, endpoint: str, cluster: ApiClient) -> None:
        self._endpoint = endpoint
        self._cluster = cluster
        node = KubeletNode(psutil.virtual_memory().total, systemd_cgroups=True, has_cgroup2=True)
        self._kubelet = PodKubelet(RuntimeClient(endpoint), node)
        self._kubelet.call_seconds = CALL_SECONDS

    async def serve(self) -> None:
        while True:
            problem = await self._sync()
            try:
                await self._tell(problem)
            except CriProxyError as error:
                print(f"the cluster does not hear of it: {error}", flush=True)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _sync(self) -> str:
        """Have the pods of the manifests and no others. Return why the node is not Ready, '' when it is."""
        try:
            status = await self._kubelet.call("Status", pb.StatusRequest(), pb.StatusResponse)
            if not any(each.type == "RuntimeReady" and each.status for each in status.status.conditions):
                return "the runtime is not ready"
            there = await self._sandboxes()
            wanted = {path.stem: path for path in MANIFESTS.glob("*.json")}
            for name in wanted.keys() - there.keys():
                await self._run(json.loads(wanted[name].read_text()))
            for name in there.keys() - wanted.keys():
                await self._kubelet.remove_pod(there[name])
        except CriProxyError as error:
            return str(error)
        only = PARTICULAR.read_text().strip() if PARTICULAR.exists() else self._endpoint
        return "" if only == self._endpoint else f"this kubelet is not to its liking: {self._endpoint}"

    async def _sandboxes(self) -> dict[str, str]:
        request = pb.ListPodSandboxRequest(filter=pb.PodSandboxFilter(state=pb.PodSandboxStateValue()))  # READY is 0
        reply = await self._kubelet.call("ListPodSandbox", request, pb.ListPodSandboxResponse)
        return {item.metadata.name: item.id for item in reply.items}

    async def _run(self, manifest: Plain) -> None:
        config = sandbox_of(manifest, self._kubelet.node)
        for container in manifest["spec"]["containers"]:
            (Path(config.log_directory) / container["name"]).mkdir(parents=True, exist_ok=True)
        sandbox_id = await self._kubelet.run_sandbox_as(config)
        for container in manifest["spec"]["containers"]:
            request = create_request(manifest, container, sandbox_id, self._kubelet.node)
            await self._kubelet.start(await self._kubelet.create_as(request))
        print(f"{config.metadata.name} runs", flush=True)

    async def _tell(self, problem: str) -> None:
        print(problem or f"Ready by {self._endpoint}", flush=True)
        ready = {"type": "Ready", "status": "False" if problem else "True", "message": problem or "kubelet is ready"}
        await self._cluster.send("PATCH", NODE, {"status": {"conditions": [ready]}}, MERGE_PATCH)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        await self._cluster.send("PATCH", HEARTBEAT, {"spec": {"renewTime": now}}, MERGE_PATCH)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path)
    parser.add_argument("--container-runtime-endpoint", required=True)
    arguments = parser.parse_args()
    cluster = ApiClient(access_of(None, os.environ, ACCOUNT))
    asyncio.run(NodeKubelet(arguments.container_runtime_endpoint, cluster).serve())


if __name__ == "__main__":
    main()
