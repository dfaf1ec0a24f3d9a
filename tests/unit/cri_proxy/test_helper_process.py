import subprocess
import sys

import pytest

# Each in a process of its own: this one has threads, and may not fork. What is called must be importable in the helper.
BEGIN = """
import os, pickle, select, signal, socket, sys, time, warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from cri_proxy.errors import StoreError
from cri_proxy.helper_process import HelperFailed, Launcher
from cri_proxy.private_files import private_directory

listening = socket.socket(); listening.bind(("127.0.0.1", 0)); listening.listen()
launcher = Launcher.fork()
helper = launcher.start()

def failure(kind, function, *args):
    try:
        helper.call(function, *args)
    except kind as error:
        return error
    raise AssertionError("it succeeded")

def ended(launcher):
    with launcher.watched() as socket:
        return bool(select.select([socket], [], [], 30)[0])

def ends(process):
    return bool(select.select([process], [], [], 30)[0])
"""
STORIES = {
    "a helper is another process and stays the same one": """
        assert helper.call(os.getpid) == helper.call(os.getpid) != os.getpid()
    """,
    "what a function raises reaches the caller": """
        assert failure(FileNotFoundError, os.stat, "/proc/none").filename == "/proc/none"
        assert "/proc/none: cannot make" in str(failure(StoreError, private_directory, Path("/proc/none")))
    """,
    "a fault of the function ends the helper and is named": """
        assert "KeyError('x')" in str(failure(HelperFailed, {}.__getitem__, "x"))
        assert failure(HelperFailed, os.getpid)
    """,
    "a helper that is killed has failed and another one can be started": """
        pid = helper.call(os.getpid)
        os.kill(pid, signal.SIGKILL)
        assert failure(HelperFailed, os.getpid)
        assert launcher.start().call(os.getpid) != pid
    """,
    "a launcher that has ended is replaced by another program, which has loaded what helpers need": """
        launcher = Launcher.fork(["cri_proxy.private_files"])
        old = launcher.start().call(os.getppid)
        os.kill(old, signal.SIGKILL)
        assert ended(launcher)
        helper = launcher.start()
        assert helper.call(os.getppid) not in (old, os.getpid())
        assert helper.call(eval, "'cri_proxy.private_files' in __import__('sys').modules")
        assert not Path(f"/proc/{old}").exists()
    """,
    "a launcher that runs is not replaced": """
        launcher.restore()
        assert launcher.start().call(os.getppid) == helper.call(os.getppid)
    """,
    "threads that find the launcher gone at the same time get helpers of one other": """
        os.kill(helper.call(os.getppid), signal.SIGKILL)
        assert ended(launcher)
        with ThreadPoolExecutor(4) as threads:
            parents = {each.result().call(os.getppid) for each in [threads.submit(launcher.start) for _ in range(4)]}
        assert len(parents) == 1
    """,
    "where no other launcher can be started no helper can, and no socket is left open": """
        os.kill(helper.call(os.getppid), signal.SIGKILL)
        assert ended(launcher)
        sys.executable = "/nowhere/python"
        with warnings.catch_warnings():
            warnings.simplefilter("error", ResourceWarning)
            for attempt in (launcher.start, launcher.restore, launcher.start):
                try:
                    attempt()
                except HelperFailed as error:
                    assert "a new launcher cannot be started" in str(error), error
                    assert str(error).count("the helper process for files failed") == 1, error
                else:
                    raise AssertionError
    """,
    "a launcher that ends at its start is not waited for": """
        launcher = Launcher.fork(["cri_proxy.private_files"])
        os.kill(launcher.start().call(os.getppid), signal.SIGKILL)
        assert ended(launcher)
        sys.executable = "/bin/false"
        try:
            launcher.start()
        except HelperFailed as error:
            assert "ended at its start" in str(error), error
        else:
            raise AssertionError
    """,
    "a helper holds nothing of the daemon's open": """
        numbers = [n for n in range(64) if helper.call(os.path.lexists, f"/proc/self/fd/{n}")]
        held = [helper.call(os.readlink, f"/proc/self/fd/{n}") for n in numbers]
        assert held[:3] == ["/dev/null"] * 3, held
        assert os.readlink(f"/proc/self/fd/{listening.fileno()}") not in held, held
        assert len([each for each in held if each.startswith("socket:")]) == 1, held
    """,
    "signals of the terminal and of the service manager are the daemon's": """
        pid, parent = helper.call(os.getpid), helper.call(os.getppid)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, number)
            os.kill(parent, number)
        assert (helper.call(os.getpid), launcher.start().call(os.getppid)) == (pid, parent)
    """,
    "a request that a daemon has left behind is not carried out": """
        pid, made = helper.call(os.getpid), Path(f"/tmp/helper-{os.getpid()}")
        process = os.pidfd_open(pid)
        os.kill(pid, signal.SIGSTOP)
        pickle.dump((os.mkdir, (str(made),)), helper._stream)
        helper._stream.flush()
        helper.close()
        os.kill(pid, signal.SIGCONT)
        assert ends(process) and not made.exists()
    """,
    "helpers and launcher end with the daemon": """
        processes = [os.pidfd_open(helper.call(function)) for function in (os.getpid, os.getppid)]
        helper.close()
        launcher.close()
        assert all(map(ends, processes))
    """,
}


@pytest.mark.parametrize("story", STORIES)
def test_a_helper_process(story: str) -> None:
    lines = (line.removeprefix("        ") for line in STORIES[story].splitlines())
    code = "\n".join((BEGIN, *lines, 'print("done")'))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("done\n", "")
