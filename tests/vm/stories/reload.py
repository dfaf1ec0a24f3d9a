"""Somebody reloads systemd where runc gives it CPU masks with their bytes reversed; then the daemon is uninstalled.

The daemon stands still during the first reload, so that what systemd does is seen; the second one it notices itself.
"""

import json
import subprocess
import sys

from tests.vm.stories.pods import alone
from tests.vm.stories.stage import Stage, patiently, say

VICTIM = "victim/c0"


async def reload(stage: Stage) -> None:
    """CPUs 1 to 3 are the neighbour's, so that the victim's mask has two bytes."""
    await stage.run(alone("neighbour", 3000))
    await stage.run(alone("victim", 2000))
    own = stage.note("reload: before")[VICTIM]
    stage.fact("reload: runc", run("runc", "--version").stdout)

    async def is_foreseen() -> bool:
        return any("reverses the bytes" in warning for warning in (await stage.daemon.admin.status()).warnings)

    await patiently("the daemon warns", is_foreseen)
    stage.fact("reload: warnings", (await stage.daemon.admin.status()).warnings)
    with stage.daemon_stopped():
        daemon_reload()
        stage.note("reload: moved by systemd")
    for count, step in enumerate(("put back", "put back again"), start=1):

        async def is_back(count: int = count) -> bool:
            return repairs(stage) >= count and stage.see()[VICTIM].cpus == own.cpus

        stage.fact(f"reload: is {step}", await patiently(step, is_back))
        stage.note(f"reload: {step}")
        if count == 1:
            daemon_reload()


async def reset(stage: Stage) -> None:
    """What it leaves in the units must not narrow anything at the next reload."""
    stage.fact("reset: exit status", await stage.daemon.stop())
    program = "import sys; from cri_proxy.cli.main import main; sys.exit(main())"
    options = ("--state-dir", str(stage.daemon.directory / "state"), "--runtime-endpoint", stage.runtime_endpoint)
    done = run(sys.executable, "-c", program, "reset", *options, "-o", "json")
    say(done.stderr)
    stage.fact("reset: report", json.loads(done.stdout))
    stage.note("reset: widened")
    daemon_reload()
    stage.note("reset: reloaded")


def repairs(stage: Stage) -> int:
    """How often the daemon has updated the victim, which nothing but a repair does here."""
    lines = (json.loads(line) for line in stage.daemon.log.read_text().splitlines() if line.startswith("{"))
    return sum((line["event"], line.get("pod")) == ("updated", "victim") for line in lines)


def daemon_reload() -> None:
    done = run("systemctl", "daemon-reload")
    say(f"daemon-reload: {done.returncode} {done.stderr}")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)
