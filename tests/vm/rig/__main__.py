"""Run a command on an emulated machine: ``python -m tests.vm.rig TOPOLOGY.json -- COMMAND...``."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.vm.rig.errors import RigError
from tests.vm.rig.image import ensure_image
from tests.vm.rig.machine import Job, run_machine
from tests.vm.rig.topology import Topology


def main() -> int:
    """The command's exit status; 125 when the machine did not run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.vm.rig", description=__doc__)
    parser.add_argument("topology", type=Path, help="a file of tests/vm/topologies")
    parser.add_argument("--out", type=Path, help="where what the command leaves in /out goes")
    parser.add_argument("--timeout", type=float, default=330.0, metavar="SECONDS")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            outcome = run_machine(
                Topology.from_json(arguments.topology.read_text()),
                Job(tuple(arguments.command)),
                image=ensure_image(),
                out=arguments.out or Path(scratch),
                timeout_seconds=arguments.timeout,
            )
    except RigError as error:
        print(error, file=sys.stderr)
        return 125
    print(f"[rig] {dict(outcome.steps_seconds)}, attempt {outcome.attempts}", file=sys.stderr)
    return outcome.exit_status


if __name__ == "__main__":
    sys.exit(main())
