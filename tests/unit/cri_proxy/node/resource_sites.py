"""A node that tells its containers their resources, and what they read there."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from cri_proxy.config.model import Config
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.node.resource_files.directories import JSON, SHELL, directory_of
from policies.base import ContainerKey
from tests.fakes.site import Site, opened


@asynccontextmanager
async def site_with_files(root: Path, *, rules: Config | None = None) -> AsyncIterator[Site]:
    """The small node with the containers' files below ``root``; at the end no fault of ours may have been reported."""
    site = Site(rules=rules)
    site.files_root = root
    async with opened(site):
        yield site
        await site.node.settle()


def files_of(site: Site, pod: RunningPod, name: str = "c") -> Path:
    assert site.files_root is not None
    return directory_of(ContainerKey(pod.spec.pod_uid, name)).below(site.files_root)


def variables(site: Site, pod: RunningPod, name: str = "c") -> dict[str, str]:
    lines = (files_of(site, pod, name) / SHELL).read_text().splitlines()
    return {variable: value.strip('"') for variable, _, value in (line.partition("=") for line in lines)}


def generation(site: Site, pod: RunningPod, name: str = "c") -> int:
    return int(json.loads((files_of(site, pod, name) / JSON).read_text())["generation"])


def mounted(site: Site, pod: RunningPod, name: str = "c") -> list[tuple[str, str]]:
    mounts = site.runtime.node.containers[pod.container_id(name)].config.mounts
    return [(mount.host_path, mount.container_path) for mount in mounts]
