"""Write the answers on docs/questions.md and the pictures of the terminal; with ``serve`` keep the node, to ask it."""

import asyncio
import sys
import tempfile
from pathlib import Path

from cri_proxy.cli.output import say
from cri_proxy.relay.event_loop import run_on_loop
from tests.terminal.node import busy_node
from tests.terminal.transcript import PICTURES, written


async def main(*, serves: bool) -> int:
    """Write, or serve until interrupted."""
    with tempfile.TemporaryDirectory() as directory:
        async with busy_node(Path(directory)) as node:
            if serves:
                say(f"cri-proxy status --admin unix://{node.admin.path}")
                await asyncio.Event().wait()
            PICTURES.mkdir(exist_ok=True)
            for path, text in (await written(node.admin.path)).items():
                path.write_text(text)
    return 0


if __name__ == "__main__":
    try:
        raise SystemExit(run_on_loop(main(serves="serve" in sys.argv)))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
