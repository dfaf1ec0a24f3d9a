"""``cri-proxy demo``: print each step of a built-in scenario on an emulated machine, then status and an explanation."""

import argparse
import sys
from typing import Final

from cri_proxy.cli.arguments import seconds
from cri_proxy.cli.help.parser import WithoutEffect

EXAMPLE = """\
cri-proxy demo
cri-proxy demo --pace 0
cri-proxy demo -o json"""
# Pause between two steps on a terminal: time to read five lines.
PACE_SECONDS = 2.0

WITHOUT_EFFECT: Final = (WithoutEffect(("--pace",), "without -o text", lambda args: args.output != "text"),)


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "--pace",
        type=seconds(0, 60),
        metavar="SECONDS",
        help=f"pause between steps (default {PACE_SECONDS:g} on a terminal, else none)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the demo; with -o json or yaml print what ``simulate`` prints of its scenario."""
    import asyncio

    if args.output != "text":
        from cri_proxy.cli.output import emit
        from cri_proxy.simulate.demo import demo_scenario
        from cri_proxy.simulate.run_files import run_scenario

        emit(run_scenario(demo_scenario()).json_value(), args.output, str)
        return 0
    pace_seconds = args.pace
    if pace_seconds is None:
        pace_seconds = PACE_SECONDS if sys.stdout.isatty() else 0.0
    asyncio.run(_run_demo(pace_seconds))
    return 0


async def _run_demo(pace_seconds: float) -> None:
    import asyncio
    from functools import partial

    from cri_proxy.cli.output import emit, is_colourful, say
    from cri_proxy.cli.render.columns import paint, terminal_width
    from cri_proxy.cli.render.explain import render_explain
    from cri_proxy.cli.render.status import render_status
    from cri_proxy.simulate.demo import EXPLAINED, Demo

    colours = is_colourful()
    demo = Demo()
    runner = demo.runner
    say(f"An emulated machine: {runner.scenario.about}.\n  {demo.legend}\n")
    try:
        async for scene in demo.steps():
            say(paint(f"{scene.number:>2}. {scene.caption}", "bold", colours=colours))
            say("\n".join(f"      {row}" for row in scene.cpus))
            say("\n".join(f"    {line}" for line in scene.news) + "\n")
            await asyncio.sleep(pace_seconds)
        say(paint("The output of cri-proxy status now:", "bold", colours=colours))
        emit(runner.simulated.view.status(), "text", partial(render_status, colours=colours, width=terminal_width()))
        say(paint(f"\nAnd cri-proxy explain {'/'.join(EXPLAINED)}:", "bold", colours=colours))
        emit(
            runner.simulated.view.explain(*EXPLAINED),
            "text",
            partial(render_explain, colours=colours, width=terminal_width()),
        )
    finally:
        await runner.close()
