"""Boot an emulated machine, run one command in it as root, give back what came of it.

QEMU emulates (no KVM needed) with ``thread=single``: QEMU 7.2 with a thread per CPU sometimes crashes or hangs while
the guest boots, and is hardly faster on few cores. Every run starts from the same clean disk; what it writes is
thrown away except what it leaves in /out.
"""

import asyncio
import io
import shlex
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.vm.rig.errors import MachineError
from tests.vm.rig.topology import Topology

QEMU = "qemu-system-x86_64"
ACCELERATOR = "tcg,thread=single,tb-size=512"
ATTEMPTS = 3  # a machine that dies or hangs before it is ready is started again
READY_SECONDS = 180.0  # 13 on two idle cores, over 90 with a load of 20
OUT_DISK_BYTES = 1 << 28
JOB = Path(__file__).with_name("guest") / "job.sh"
KERNEL_PARAMETERS = (
    "console=ttyS0 root=259:0 rootfstype=ext4 rw rootwait init=/rig/init panic=-1 quiet mitigations=off nokaslr "
    "nowatchdog no_timer_check random.trust_cpu=1 audit=0 rcupdate.rcu_expedited=1 norandmaps"
)
CONSOLE_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class Job:
    """What to run in the guest. ``files`` are (host path, absolute guest path); folders come with all in them."""

    command: tuple[str, ...]
    files: tuple[tuple[Path, str], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it went: the command's exit status, what it printed, and when after the start each step was reached."""

    exit_status: int
    output: str
    steps_seconds: tuple[tuple[str, float], ...]
    attempts: int


@dataclass(slots=True)
class _Progress:
    """What the guest has told so far, on one attempt."""

    started: float = field(default_factory=time.monotonic)
    steps: dict[str, float] = field(default_factory=dict)
    output: list[str] = field(default_factory=list)
    exit_status: int | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, line: str) -> None:
        word, _, value = line.partition(" ")
        self.steps[word] = round(time.monotonic() - self.started, 1)
        if word == "ready":
            self.ready.set()
        elif word == "status":
            self.exit_status = int(value)


def run_machine(
    topology: Topology,
    job: Job,
    *,
    image: Path,
    out: Path,
    timeout_seconds: float = 330.0,
    echo: Callable[[str], object] = sys.stdout.write,
) -> Outcome:
    """Run the job; what it leaves in /out comes back in ``out``. Raises MachineError when the machine fails it.

    ``timeout_seconds`` is for all attempts together.
    """
    if shutil.which(QEMU) is None:
        raise MachineError(f"{QEMU} is not installed: apt-get install --no-install-recommends qemu-system-x86")
    with tempfile.TemporaryDirectory(prefix="cri-proxy-vm-") as name:
        work = Path(name)
        _pack(work / "job.tar", topology, job)
        deadline = time.monotonic() + timeout_seconds
        for attempt in range(1, ATTEMPTS + 1):
            (work / "out.tar").write_bytes(b"")
            with (work / "out.tar").open("r+b") as disk:
                disk.truncate(OUT_DISK_BYTES)
            command = _qemu_command(topology, work, image)
            progress = asyncio.run(_attempt(command, work, echo, deadline - time.monotonic()))
            if progress.exit_status is not None:
                if "output-lost" in progress.steps:
                    raise MachineError("what the command left in /out could not be packed", "".join(progress.output))
                _unpack(work / "out.tar", out)
                steps = tuple(progress.steps.items())
                return Outcome(progress.exit_status, "".join(progress.output), steps, attempt)
            if progress.ready.is_set():
                break
            echo(f"[rig] not ready: {_last_words(work)}\n")
        after = f"{time.monotonic() - progress.started:.0f} s, after {list(progress.steps)}"
        raise MachineError(f"the machine did not finish its command: attempt {attempt}, {after}", _last_words(work))


async def _attempt(
    command: Sequence[str], work: Path, echo: Callable[[str], object], timeout_seconds: float
) -> _Progress:
    progress = _Progress()
    with (work / "qemu.log").open("wb") as log:
        # setpriv: no orphan machine when we are killed. stdin stays an open pipe: at its end QEMU would take the
        # output port for closed, and the guest's writes would block.
        process = await asyncio.create_subprocess_exec(
            *("setpriv", "--pdeathsig", "KILL", *command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds), asyncio.TaskGroup() as group:
                boot = group.create_task(_require_ready(progress, process))
                group.create_task(_follow_control(work / "control", progress, process))
                await _follow_output(process, progress, echo)
                await process.wait()
                boot.cancel()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return progress


async def _require_ready(progress: _Progress, process: asyncio.subprocess.Process) -> None:
    try:
        await asyncio.wait_for(progress.ready.wait(), READY_SECONDS)
    except TimeoutError:
        process.kill()


async def _follow_control(path: Path, progress: _Progress, process: asyncio.subprocess.Process) -> None:
    """Read what the guest reports; the socket is there a moment after QEMU's start."""
    while process.returncode is None:
        with suppress(OSError):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                async for line in reader:
                    progress.take(line.decode().strip())
            finally:
                writer.close()
            return
        await asyncio.sleep(0.05)


async def _follow_output(
    process: asyncio.subprocess.Process, progress: _Progress, echo: Callable[[str], object]
) -> None:
    if process.stdout is None:
        return
    async for line in process.stdout:
        text = line.decode(errors="replace").replace("\r\n", "\n")
        progress.output.append(text)
        echo(text)


def _qemu_command(topology: Topology, work: Path, image: Path) -> list[str]:
    parameters = " ".join((KERNEL_PARAMETERS, *topology.kernel_parameters()))
    machine = ["-M", "q35", "-accel", ACCELERATOR, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    return [
        *(QEMU, *machine, "-kernel", str(image / "vmlinuz"), "-append", parameters),
        *("-drive", f"if=none,id=root,file={image / 'root.img'},format=raw,snapshot=on,cache=unsafe"),
        *("-device", "nvme,serial=rigroot,drive=root,max_ioqpairs=2"),
        *("-drive", f"if=none,id=job,file={work / 'job.tar'},format=raw,readonly=on"),
        *("-device", "virtio-blk-pci,drive=job,serial=rigjob,num-queues=1"),
        *("-drive", f"if=none,id=out,file={work / 'out.tar'},format=raw,cache=unsafe"),
        *("-device", "virtio-blk-pci,drive=out,serial=rigout,num-queues=1"),
        *("-device", "virtio-serial-pci", "-chardev", "stdio,id=o,signal=off"),
        *("-device", "virtserialport,chardev=o,name=output"),
        *("-chardev", f"socket,id=c,path={work}/control,server=on,wait=off"),
        *("-device", "virtserialport,chardev=c,name=control", "-device", "virtio-rng-pci"),
        *("-chardev", f"file,id=k,path={work}/console.log", "-serial", "chardev:k"),
        *topology.qemu_arguments(),
    ]


def _pack(path: Path, topology: Topology, job: Job) -> None:
    """The job disk: a plain tar that the guest unpacks at /."""

    def as_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        return entry

    environment = [("RIG_OFFLINE", " ".join(map(str, topology.offline))), *job.environment]
    texts = {
        "rig/job/job.sh": JOB.read_text(),
        "rig/job/environment": "".join(f"export {key}={shlex.quote(value)}\n" for key, value in environment),
        "rig/job/command": f"exec {shlex.join(job.command)}\n",
    }
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for name, text in texts.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(text.encode()), 0o755, int(time.time())
            archive.addfile(entry, io.BytesIO(text.encode()))
        for host, guest in job.files:
            archive.add(host, guest.lstrip("/"), filter=as_root)
    with path.open("ab") as disk:  # a disk is whole sectors, and tar wants to read past its end
        disk.truncate((disk.tell() + (1 << 20)) & ~511)


def _unpack(disk: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with tarfile.open(disk) as archive:
        # Debian's Python 3.11.2 does not know the argument ``filter`` yet; later versions warn without a filter.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(out)


def _last_words(work: Path) -> str:
    """The end of what QEMU and the guest's console said, without QEMU's notes on features it cannot emulate."""
    texts = (path.read_text(errors="replace") for path in (work / "qemu.log", work / "console.log") if path.exists())
    lines = (line for text in texts for line in text.splitlines(keepends=True) if "TCG doesn't support" not in line)
    return "".join(lines)[-CONSOLE_CHARACTERS:]
