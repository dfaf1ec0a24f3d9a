from pathlib import Path

from cri_proxy.cri.device_names.nvidia_gpus import Gpu, NvidiaGpus, Toolkit
from cri_proxy.device_files.nvidia_driver import MAX_GPUS, nvidia_gpus

ADDRESS = "0000:07:00.0"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def driver(root: Path) -> Path:
    """A GPU with a MIG instance, a directory of no GPU, and a toolkit that takes mounts."""
    proc = root / "proc/driver"
    write(proc / f"nvidia/gpus/{ADDRESS}/information", f"GPU UUID: GPU-aa\nBus Location: {ADDRESS}\nDevice Minor: 4\n")
    (proc / "nvidia/gpus/odd").mkdir()
    (proc / "nvidia/capabilities/gpu4/mig/gi1").mkdir(parents=True)
    write(proc / "nvidia-caps/mig-minors", "config 1\ngpu4/gi1/access 12\n")
    write(root / "etc/nvidia-container-runtime/config.toml", "accept-nvidia-visible-devices-as-volume-mounts = true\n")
    return root


def test_the_gpus_parts_and_toolkit_of_the_node_are_read(tmp_path: Path) -> None:
    found = nvidia_gpus(driver(tmp_path), with_parts=True)
    assert found == NvidiaGpus((Gpu(ADDRESS, 4, "gpu-aa"),), frozenset({4}), ((12, 4),), Toolkit(takes_mounts=True))


def test_only_gpus_with_instances_have_parts(tmp_path: Path) -> None:
    write(driver(tmp_path) / "proc/driver/nvidia/gpus/0000:08:00.0/information", "Device Minor: 5\n")
    (tmp_path / "proc/driver/nvidia/capabilities/gpu5/mig").mkdir(parents=True)
    write(tmp_path / "proc/driver/nvidia/capabilities/gpu4/mig/config", "")
    assert nvidia_gpus(tmp_path, with_parts=False).parted == {4}


def test_the_list_of_parts_is_read_only_where_it_is_needed(tmp_path: Path) -> None:
    assert nvidia_gpus(driver(tmp_path), with_parts=False).parts == ()


def test_without_the_driver_there_are_none(tmp_path: Path) -> None:
    assert nvidia_gpus(tmp_path, with_parts=True) == NvidiaGpus()


def test_a_file_that_cannot_be_read_is_of_a_gpu_without_a_minor(tmp_path: Path) -> None:
    (tmp_path / f"proc/driver/nvidia/gpus/{ADDRESS}/information").mkdir(parents=True)
    assert nvidia_gpus(tmp_path, with_parts=True).gpus == (Gpu(ADDRESS),)


def test_no_more_directories_are_read_than_a_node_can_have_gpus(tmp_path: Path) -> None:
    for number in range(MAX_GPUS + 3):
        (tmp_path / f"proc/driver/nvidia/gpus/{number:04x}:00:00.0").mkdir(parents=True)
    assert len(nvidia_gpus(tmp_path, with_parts=False).gpus) == MAX_GPUS
