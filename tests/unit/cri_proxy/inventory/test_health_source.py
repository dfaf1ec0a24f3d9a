"""A file or a command is asked for the health of devices: bounded, without a shell, with the reason where it fails."""

import subprocess
import sys
from pathlib import Path

import pytest

from cri_proxy.inventory.health import DeviceHealth
from cri_proxy.inventory.health_source import HealthSource, health_of
from cri_proxy.yaml_fields import DocumentError
from tests.fakes.waiting import holds

SICK = (DeviceHealth("gpu 0"), DeviceHealth("gpu 1", "fan failed"))
REPORT = "gpu 0 ok\ngpu 1 unhealthy fan failed\n"


def program(tmp_path: Path, text: str) -> str:
    path = tmp_path / "probe"
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return str(path)


def problem(source: HealthSource) -> str:
    with pytest.raises(DocumentError) as caught:
        health_of(source)
    return str(caught.value)


def test_a_file_and_a_command_report_the_same(tmp_path: Path) -> None:
    (tmp_path / "health").write_text(REPORT)
    command = program(tmp_path, f"print({REPORT!r})")
    assert health_of(HealthSource(str(tmp_path / "health"))) == SICK
    assert health_of(HealthSource(command=(command,))) == SICK
    assert health_of(HealthSource(str(tmp_path / "health"), (command,))) == (*SICK, *SICK)
    assert health_of(HealthSource()) == ()


def test_words_of_a_command_are_its_arguments_and_no_shell_reads_them(tmp_path: Path) -> None:
    words = ("$(touch here)", "; touch there", "`id`", "a b")
    command = program(tmp_path, "import sys\nassert sys.argv[1:] == " + repr(list(words)) + "\nprint('gpu 0 ok')")
    assert health_of(HealthSource(command=(command, *words))) == (DeviceHealth("gpu 0"),)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["probe"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("print('no devices were found'); raise SystemExit(6)", "exit status 6: no devices were found"),
        ("raise SystemExit(1)", "exit status 1"),
        ("import os; os.kill(os.getpid(), 11)", "was ended by signal 11"),
        ("import time; time.sleep(60)", "no end within 0.3 s"),
        ("import os, time; os.close(1); time.sleep(60)", "no end within 0.3 s"),
        ("import sys\nwhile True: sys.stdout.write('gpu 0 ok\\n' * 9999)", "prints more than 4194304 bytes"),
        ("print('gpu 0 fine')", "1: expected DEVICE ok"),
        ("", "an empty report"),
    ],
)
def test_a_command_that_fails_hangs_or_prints_without_an_end_is_named(tmp_path: Path, text: str, expected: str) -> None:
    command = program(tmp_path, text)
    within = 0.3 if "sleep" in text else 10.0
    assert problem(HealthSource(command=(command,), within_seconds=within)).startswith(command)
    assert expected in problem(HealthSource(command=(command,), within_seconds=within))


async def test_what_a_command_has_started_ends_with_it(tmp_path: Path) -> None:
    command = program(
        tmp_path,
        f"import os, time\nif not os.fork():\n open('{tmp_path}/pid', 'w').write(str(os.getpid()))\ntime.sleep(60)",
    )
    assert "no end within 2 s" in problem(HealthSource(command=(command,), within_seconds=2.0))
    pid = int((tmp_path / "pid").read_text())
    # It dies when it next gets a CPU, and is a zombie until its new parent has reaped it.
    await holds("it has gone", lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def test_a_lost_gpu_is_known_though_nvidia_smi_fails_as_a_whole(tmp_path: Path) -> None:
    command = program(
        tmp_path,
        "print('Unable to determine the device handle for GPU0000:17:00.0: GPU is lost.')\nraise SystemExit(15)",
    )
    assert health_of(HealthSource(command=(command,))) == (DeviceHealth("0000:17:00.0", "GPU is lost.", True),)


def test_a_file_or_program_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    assert problem(HealthSource(absent)) == f"{absent}: cannot be read: No such file or directory"
    assert problem(HealthSource(command=(absent,))) == f"{absent}: cannot be run: No such file or directory"
    (tmp_path / "out").symlink_to("/etc/hostname")
    assert "leads out of its directory" in problem(HealthSource(str(tmp_path / "out")))


IN_A_HELPER = """
import sys
from cri_proxy.helper_process import Launcher
from cri_proxy.inventory.health_source import HealthSource, health_of
try:
    Launcher.fork().start().call(health_of, HealthSource(command=(sys.argv[1],)))
except Exception as error:
    print(error)
"""


def test_a_helper_of_the_daemon_knows_the_exit_status_of_a_command(tmp_path: Path) -> None:
    """Helpers let the kernel reap what ends, which hides how it ended. A launcher is forked by one thread."""
    command = program(tmp_path, "raise SystemExit(3)")
    done = subprocess.run([sys.executable, "-c", IN_A_HELPER, command], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{command}: exit status 3"
