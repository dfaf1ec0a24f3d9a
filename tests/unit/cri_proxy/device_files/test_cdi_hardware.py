"""What is behind CDI names by files that are read at once, as the device plugin does."""

import json
from pathlib import Path

from cri_proxy.device_files.cdi import CdiFiles
from cri_proxy.device_files.cdi_hardware import proofs_in
from cri_proxy.file_workers import PLAIN_THREADS
from cri_proxy.intercept.locality import LocalityLookup
from policies.devices import ProvedDevice

GPU = "0000:3b:00.0"


def a_node(root: Path) -> Path:
    """A GPU of NVIDIA's, the second by its driver's number and the first by the specification's."""
    (root / "sys/bus/pci/devices" / GPU).mkdir(parents=True)
    driver = root / "proc/driver/nvidia/gpus" / GPU
    driver.mkdir(parents=True)
    (driver / "information").write_text(f"GPU UUID: GPU-aa\nBus Location: {GPU}\nDevice Minor: 1\n")
    devices = [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia1"}, {"path": "/dev/absent"}]}}]
    (root / "etc/cdi").mkdir(parents=True)
    (root / "etc/cdi/nvidia.json").write_text(json.dumps({"kind": "nvidia.com/gpu", "devices": devices}))
    return root


async def test_files_that_are_read_at_once_prove_what_the_daemons_do(tmp_path: Path) -> None:
    names = ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]
    found = proofs_in(a_node(tmp_path), CdiFiles(tmp_path), names)
    assert found == {names[0]: (ProvedDevice((GPU, "gpuaa")),), names[1]: ()}
    assert await LocalityLookup(tmp_path, PLAIN_THREADS).proofs(names) == found
