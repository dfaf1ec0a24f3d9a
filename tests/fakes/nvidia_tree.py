"""The files that NVIDIA's driver has below /proc for some GPUs."""

from pathlib import Path


def write_gpu(root: Path, address: str, minor: int, uuid: str) -> None:
    """Write the file of a GPU as the driver does; ``uuid`` has question marks where it is not known yet."""
    directory = root / "proc/driver/nvidia/gpus" / address
    directory.mkdir(parents=True, exist_ok=True)
    text = f"Model: \t\t NVIDIA H100\nGPU UUID: \t {uuid}\nBus Location: \t {address}\nDevice Minor: \t {minor}\n"
    (directory / "information").write_text(text)
