from pathlib import Path

import pytest

from cri_proxy.doctor.facts.runtime import read_affinity
from sysfs.cpuset import CpuSet
from tests.fakes.made_up_roots import put

UNIT, DROP_IN = "lib/systemd/system/containerd.service", "etc/systemd/system/containerd.service.d/a.conf"
MANAGER = "etc/systemd/system.conf"


@pytest.mark.parametrize(
    ("files", "cpus", "path"),
    [
        ({}, None, ""),
        ({MANAGER: "[Manager]\nCPUAffinity=0-3\n"}, "0-3", f"/{MANAGER}"),
        ({MANAGER: "[Manager]\n#CPUAffinity=0-3\n"}, None, ""),
        ({MANAGER: "[Manager]\nCPUAffinity=0-3\n", UNIT: "[Service]\nCPUAffinity=0 2\n"}, "0,2", f"/{UNIT}"),
        ({UNIT: "[Service]\nCPUAffinity=0\n", DROP_IN: "[Service]\nCPUAffinity=4,5\n"}, "0,4-5", f"/{DROP_IN}"),
        ({UNIT: "[Service]\nCPUAffinity=0\n", DROP_IN: "[Service]\nCPUAffinity=\n"}, None, ""),
        (
            {MANAGER: "[Manager]\nCPUAffinity=0-3\n", DROP_IN: "[Service]\nCPUAffinity=\n"},
            "0-3",
            f"/{MANAGER}",
        ),
        ({f"{MANAGER}.d/x.conf": "[Manager]\nCPUAffinity=1\n"}, "1", f"/{MANAGER}.d/x.conf"),
        ({UNIT: "[Service]\nCPUAffinity=numa\n"}, None, ""),
    ],
)
def test_a_unit_beats_systemd_itself_unless_it_is_reset_and_lists_are_merged(
    files: dict[str, str], cpus: str | None, path: str, tmp_path: Path
) -> None:
    for name, text in files.items():
        put(tmp_path, name, text)
    wanted = None if cpus is None else CpuSet.parse(cpus)
    assert read_affinity(tmp_path, ["containerd.service"]) == (wanted, path)
