import pytest

from tests.fakes.embedded_calls import Calls
from tests.fakes.machines import small_machine
from tests.fakes.scripted_runtime import ScriptedRuntime

STATUS = "Name:\tcat\nCpus_allowed_list:\t1-2\nMems_allowed_list:\t0\n"


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (["cat", "/proc/self/status"], (0, STATUS)),
        (["/bin/sh", "-c", "cat /proc/self/status"], (0, STATUS)),
        (["cat", "/sys/fs/cgroup/cpuset.cpus.effective", "/sys/fs/cgroup/cpuset.mems"], (0, "1-2\n0\n")),
        (["cat", "/nosuch"], (1, "")),
        (["nproc"], (0, "2\n")),
        (["echo", "a", "b"], (0, "a b\n")),
        (["true"], (0, "")),
        (["false"], (1, "")),
        (["sh", "-c", ""], (0, "")),
        (["vim"], (127, "")),
    ],
)
async def test_a_command_sees_what_the_kernel_would_show(command: list[str], answer: tuple[int, str]) -> None:
    calls = Calls(ScriptedRuntime(small_machine()))
    assert await calls.shell(await calls.running(await calls.pod(), cpus="1-2", mems="0"), *command) == answer
