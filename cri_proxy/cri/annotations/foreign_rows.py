"""The annotations of other projects that count here under their full keys, as rows beside those of the table."""

from dataclasses import dataclass
from typing import Final

from cri_proxy.cri.annotations.exact_resources import KEYS
from cri_proxy.cri.annotations.forms import Annotation
from cri_proxy.cri.annotations.resource_managers import RESOURCE_STATUS
from cri_proxy.cri.annotations.table import TABLE
from policies.devices import ALLOCATE_HINT, DEVICE_ALLOCATED, JOINT_ALLOCATE, PARTITION_SPEC


@dataclass(frozen=True, slots=True)
class ForeignAnnotation:
    """One row. The fields are those of ``Annotation``; where it takes something, ``restrictedAnnotations`` knows it."""

    key: str
    text: str
    examples: tuple[str, ...]
    bad_example: str
    takes: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """Every spelling of the key: this one."""
        return (self.key,)

    @property
    def stands_for(self) -> str:
        """The key by which it is restricted: as it stands."""
        return self.key


_EXACT: Final = (
    "Exact requests and limits of the containers, as the admission webhook of {} writes them. A figure counts where it "
    "agrees with what the kubelet sent."
)
_EXACT_EXAMPLES: Final = (
    '{"containers": {"c0": {"requests": {"cpu": "1500m", "memory": "1Gi"}}}}',
    '{"initContainers": {"c0": {"limits": {"cpu": "2"}}}}',
)
_WITH_DEVICES: Final = "Counts with device-resources alone, which asks for the devices."

FOREIGN_TABLE: tuple[ForeignAnnotation, ...] = (
    ForeignAnnotation(
        RESOURCE_STATUS,
        "Which CPUs Koordinator's scheduler has chosen for the pod, and on which NUMA nodes: a container whose CPU "
        "request is whole owns these, alone with the others of its pod, as far as the pod requests so many.",
        ('{"cpuset": "5-6"}', '{"cpuset": "4-7", "numaNodeResources": [{"node": 1}]}'),
        '{"cpuset": "0-"}',
        "the CPUs that it names, in place of others; no more than it requests",
    ),
    ForeignAnnotation(
        DEVICE_ALLOCATED,
        "Which devices Koordinator's scheduler has chosen for the pod: a container gets what it asks for of these. "
        f"{_WITH_DEVICES}",
        (
            '{"gpu": [{"minor": 1}, {"minor": 3, "id": "GPU-5a12"}]}',
            '{"rdma": [{"minor": 0, "extension": {"vfs": [{"minor": 0, "busID": "0000:51:00.1"}]}}]}',
        ),
        '{"gpu": [1]}',
        "the devices that it names, in place of others; no more than it asks for",
    ),
    *(
        ForeignAnnotation(key, _EXACT.format(project), _EXACT_EXAMPLES, '{"containers": [1]}')
        for key, project in zip(KEYS, ("nri-plugins", "cri-resource-manager"), strict=True)
    ),
    ForeignAnnotation(
        JOINT_ALLOCATE,
        f"Which types of devices go together. {_WITH_DEVICES}",
        ('{"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}',),
        '{"deviceTypes": 1}',
    ),
    ForeignAnnotation(
        ALLOCATE_HINT,
        f"Which devices of a type are meant, and whether others may use these or their PCIe. {_WITH_DEVICES}",
        ('{"gpu": {"exclusivePolicy": "PCIeLevel"}}', '{"rdma": {"allocateStrategy": "ApplyForAll"}}'),
        '{"gpu": 1}',
    ),
    ForeignAnnotation(
        PARTITION_SPEC, f"Which sets of GPUs count. {_WITH_DEVICES}", ('{"allocatePolicy": "Restricted"}',), "[]"
    ),
)

EVERY_ROW: tuple[Annotation[object] | ForeignAnnotation, ...] = (*TABLE, *FOREIGN_TABLE)
