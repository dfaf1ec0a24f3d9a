"""``cri-proxy installer``: bring this release to the host of a pod, one node of the cluster after the other."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cri_proxy.cli.arguments import ROOT, add_path
from cri_proxy.cli.help.parser import WithoutEffect
from cri_proxy.cli.output import say
from cri_proxy.errors import CommandFailed

if TYPE_CHECKING:
    from cri_proxy.installer.journal import InstallJournal
    from cri_proxy.logs import Log

EXAMPLE = """\
cri-proxy installer --host /host --node-name "$NODE_NAME"
cri-proxy installer --turn-back"""

POLL_SECONDS = 10.0

WITHOUT_EFFECT: Final = (
    WithoutEffect(
        ("--node-name", "--namespace", "--config", "--guard-seconds", "--once"),
        "with --turn-back, which asks no cluster and installs nothing",
        lambda args: args.turn_back,
    ),
)


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    name = "the Node of this host: its label cri-proxy.io/node says what is wanted, install or uninstall"
    parser.add_argument("--node-name", default=os.environ.get("NODE_NAME", ""), metavar="NAME", help=name)
    add_path(parser, "--host", "DIR", "where the root of the host is mounted (default: /)", default=ROOT)
    parser.add_argument("--namespace", default="kube-system", help="that of the Lease cri-proxy-installer")
    back = "turn an installation on this host back that was begun and is not done, as its timer does; no cluster needed"
    parser.add_argument("--turn-back", action="store_true", help=back)
    bounds = (
        ("daemon", 120, "the daemon"),
        ("node", 300, "the Node"),
        ("guard", 900, "all of it, by the host's timer,"),
    )
    for word, seconds, what in bounds:
        text = f"how long {what} may take (default {seconds})"
        parser.add_argument(f"--{word}-seconds", type=float, default=float(seconds), metavar="SECONDS", help=text)
    default = "/etc/cri-proxy/cri-proxy.yaml"
    where = f"the daemon's configuration on the host (default {default}, which is written where there is none)"
    parser.add_argument("--config", default=default, metavar="PATH", help=where)
    steady = "how long the Node must stay Ready (default 30)"
    parser.add_argument("--steady-seconds", type=float, default=30.0, metavar="SECONDS", help=steady)
    parser.add_argument("--once", action="store_true", help="do what comes next, and end")


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM; with --once or --turn-back 0 once the node is at rest, 1 while it is not.

    Raises CriProxyError.
    """
    from cri_proxy.installer.assemble import Options, agent_of, installation_of, serve
    from cri_proxy.installer.host import HostFailed
    from cri_proxy.logs import configure_logging

    log: Log = configure_logging("info", "auto")
    # The tree of this release: packaging/installer/build.sh puts the interpreter into its directory bin.
    options = Options(
        args.node_name,
        args.namespace,
        args.config,
        args.host,
        Path(sys.executable).resolve().parent.parent,
        (args.daemon_seconds, args.node_seconds, args.steady_seconds, args.guard_seconds),
    )
    if args.turn_back:
        installation = installation_of(options, log)
        if installation.journal is None:
            say("nothing to turn back: no installation was begun on this host, or it was uninstalled")
            return 0
        installation.turn_back("the installation was not done in time")
        try:
            journal = installation.run()
        except HostFailed as error:
            raise CommandFailed(f"not all of it could be turned back: {error}") from error
        say(_told(journal))
        return 0
    if not options.node_name:
        raise CommandFailed("--node-name, or the variable NODE_NAME, has to name the Node of this host", 2)
    agent = agent_of(options, log)
    if args.once:
        return 0 if agent.step().is_rest else 1
    serve(agent, POLL_SECONDS)
    return 0


def _told(journal: "InstallJournal | None") -> str:
    """Return how the host is after --turn-back, as a sentence."""
    if journal is None:
        return "turned back: the host is as it was before the installation"
    if not journal.reason:
        return f"nothing to turn back: {journal.release} is installed, and nothing is on its way"
    left = f"{journal.installed} is installed" if journal.installed else "the host is as it was before the installation"
    return f"turned back: {left}; why: {journal.reason}"
