"""``cri-proxy simulate``: run scenario files in memory, on any machine, without root; print the results."""

import argparse

from cri_proxy.errors import CommandFailed

HELP = "play pods on any machine and see where they go, without root or runtime"
EXAMPLE = """\
cri-proxy simulate configs/scenarios/first-steps.yaml
cri-proxy simulate one.yaml another.yaml -o json
cri-proxy simulate - < one.yaml"""


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "scenarios",
        nargs="+",
        metavar="SCENARIO.yaml",
        help="scenario files (docs/reference/scenarios.md), each with one or more documents; - is standard input",
    )


def run(args: argparse.Namespace) -> int:
    """Play every document; 1 when one cannot be played, or an expectation is not met."""
    from cri_proxy.cli.output import emit
    from cri_proxy.simulate.run_files import run_files

    performances = list(run_files(args.scenarios))
    if not performances:
        raise CommandFailed("the files contain no scenario")
    if len(performances) == 1:
        only = performances[0]
        if only.error:
            raise CommandFailed(only.error)
        emit(only.json_value(), args.output, only.text)
    else:
        emit([p.json_value() for p in performances], args.output, "\n\n".join(p.text for p in performances))
    return 0 if all(p.is_good for p in performances) else 1
