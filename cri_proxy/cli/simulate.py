"""``cri-proxy simulate``: run scenario files in memory, without root; print results; exit 1 for unmet expectations."""

import argparse

from cri_proxy.errors import CommandFailed

HELP = "place pods on any machine and see where they go, without root or runtime"
EXAMPLE = """\
cri-proxy simulate configs/scenarios/first-steps.yaml
cri-proxy simulate configs/scenarios/memory.yaml configs/scenarios/neighbours.yaml -o json
cri-proxy simulate - < configs/scenarios/memory.yaml"""


GC_THRESHOLDS = (100_000, 20, 100)
"""The process ends soon, and what it makes are few cycles: with Python's own a fifth of the time goes to looking."""


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "scenarios",
        nargs="+",
        metavar="SCENARIO.yaml",
        help="scenario files (docs/reference/scenarios.md), each with one or more documents; - is standard input",
    )


def run(args: argparse.Namespace) -> int:
    """Run every document; return 1 if one cannot be run, or an expectation is not met."""
    import gc

    from cri_proxy.cli.output import emit
    from cri_proxy.simulate.run_files import run_files

    gc.set_threshold(*GC_THRESHOLDS)
    results = list(run_files(args.scenarios))
    if not results:
        raise CommandFailed("the files contain no scenario")
    first, *more = results
    if first.error and not more:
        raise CommandFailed(first.error)
    plain = [result.json_value() for result in results]
    emit(
        results,
        args.output,
        lambda found: "\n\n".join(result.text for result in found),
        plain=lambda _: plain if more else plain[0],
    )
    return 0 if all(r.is_good for r in results) else 1
