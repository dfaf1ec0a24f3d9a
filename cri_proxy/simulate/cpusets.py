"""The cgroups of the embedded runtime's containers, as the slow check for drift looks them up."""

from cri_proxy.node.drift.cgroups import Enforced
from cri_proxy.runtime.embedded.runtime import EmbeddedRuntime
from cri_proxy.runtime.embedded.status import cgroups_path


class EmbeddedCpusets:
    """Implements ``drift.cgroups.Cpusets``: what the simulated kernel enforces, whatever the runtime has on record."""

    def __init__(self, runtime: EmbeddedRuntime) -> None:
        """Looks at the containers of this runtime."""
        self._node = runtime.node

    def enforced(self, pid: int, container_id: str) -> Enforced | None:
        """The cpuset of this container; None when its process is not the one with this pid, or is gone."""
        container = self._node.containers.get(container_id)
        if container is None or not container.running or container.pid != pid:
            return None
        cpus, mems = self._node.effective(container)
        parent = self._node.sandboxes[container.sandbox_id].config.linux.cgroup_parent
        path = cgroups_path(parent, container_id)
        return Enforced(path, cpus, mems, inherits_cpus=not container.kernel_cpus)
