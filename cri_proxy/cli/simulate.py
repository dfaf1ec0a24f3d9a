"""``cri-proxy simulate``: run scenarios, or plan the pods of manifests on nodes, in memory; exit 1 for a no."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cri_proxy.cli.arguments import add_path, add_repeated, write_text
from cri_proxy.errors import CommandFailed

if TYPE_CHECKING:  # loaded late
    from cri_proxy.simulate.plan.result import PlanResult
    from cri_proxy.yaml_fields import DocumentError

EXAMPLE = """\
cri-proxy simulate configs/scenarios/first-steps.yaml
cri-proxy simulate configs/scenarios/memory.yaml configs/scenarios/neighbours.yaml -o json
cri-proxy simulate configs/pods/database.yaml --machine '{packages: 2, cores: 16, threads: 2, memory: 64Gi}'
cri-proxy simulate --nodes captured/ --config new.yaml
cri-proxy simulate configs/questions/search.yaml --nodes captured/
helm template my-chart | cri-proxy simulate - --machine node.tar.xz --nodes 12 --config new.yaml --html plan.html"""

GC_THRESHOLDS = (100_000, 20, 100)
"""The process ends soon, and what it makes are few cycles: with Python's own a fifth of the time goes to looking."""

_DEFAULTS: Final[Mapping[str, object]] = {
    "machine": [],
    "config": [],
    "nodes": "1",
    "namespace": "default",
    "strategy": "spread",
    "random": None,
    "orders": 1,
    "html": None,
    "fail_on_refusal": False,
    "fail_on_span": False,
}
"""The options that not every form of this command has, by the names of their values."""


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="scenarios (docs/reference/scenarios.md) or Kubernetes manifests (docs/reference/planning.md), each with "
        "one or more documents; a directory of manifests; - is standard input",
    )
    plan = parser.add_argument_group("options for manifests")
    machines = "a name of docs/reference/machines.md, host (default), a directory, an archive, or a description"
    add_repeated(plan, "--machine", "SPEC", f"{machines}; two of them: side by side")
    add_repeated(plan, "--config", "PATH", "the nodes' configuration; two of them: side by side", Path)
    plan.add_argument(
        "--nodes",
        default=_DEFAULTS["nodes"],
        metavar="N|DIRECTORY",
        help="so many nodes of this machine (default 1); or the archives of capture --state in a directory: beside "
        "what stands there, or without FILE what --config changes on each",
    )
    plan.add_argument(
        "--namespace",
        default=_DEFAULTS["namespace"],
        help="namespace for objects that do not set one (default: default)",
    )
    plan.add_argument(
        "--strategy",
        choices=("spread", "pack"),
        default=_DEFAULTS["strategy"],
        help="the scheduler's scoring: LeastAllocated (default) or MostAllocated",
    )
    plan.add_argument("--random", type=int, metavar="SEED", help="the pods arrive in a random order")
    plan.add_argument(
        "--orders", type=int, default=_DEFAULTS["orders"], metavar="N", help="show the worst of so many orders"
    )
    add_path(plan, "--html", "FILE", "write the plan as one page that needs no other file, too")
    parser.add_argument("--fail-on-refusal", action="store_true", help="exit 1 where a step of a scenario is refused")
    parser.add_argument(
        "--fail-on-span", action="store_true", help="exit 1 where a container owns CPUs of several NUMA nodes"
    )


def run(args: argparse.Namespace) -> int:
    """Run every scenario, or plan all manifests together; return 1 for a no."""
    import gc

    from cri_proxy.cli.manifests import is_empty, is_manifest, texts_of
    from cri_proxy.yaml_fields import DocumentError

    gc.set_threshold(*GC_THRESHOLDS)
    if not args.files:
        return _fleet(args)
    texts = texts_of(args.files)
    readable = [(name, text) for name, text in texts if isinstance(text, str) and not is_empty(text)]
    manifests = [(name, text) for name, text in readable if is_manifest(text)]
    if not manifests:
        return _run_scenarios(args, texts)
    for _, text in texts:
        if isinstance(text, DocumentError):
            raise text
    if len(manifests) < len(readable):
        other = next(name for name, text in readable if not is_manifest(text))
        raise CommandFailed(f"{other}: not a manifest, and others are; give scenarios and manifests apart", 2)
    return _plan(args, manifests)


def _refuse_options(args: argparse.Namespace, what: str, *applying: str) -> None:
    """Raise CommandFailed for an option that is given and has no effect here."""
    names = (name for name, default in _DEFAULTS.items() if name not in applying and getattr(args, name) != default)
    others = [f"--{name.replace('_', '-')}" for name in names]
    if others:
        raise CommandFailed(f"{', '.join(others)}: without effect on {what}; leave out what does not apply", 2)


def _run_scenarios(args: argparse.Namespace, texts: Sequence[tuple[str, "str | DocumentError"]]) -> int:
    from cri_proxy.cli.output import emit
    from cri_proxy.simulate.run_files import run_texts

    _refuse_options(args, "scenarios, which name their own machine and options", "fail_on_refusal", "fail_on_span")
    results = list(run_texts(texts))
    if not results:
        raise CommandFailed("the files contain neither a scenario nor a manifest")
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
    is_refused = args.fail_on_refusal and any(result.has_refusals for result in results)
    spans = args.fail_on_span and any(result.spanning for result in results)
    return 0 if all(r.is_good for r in results) and not is_refused and not spans else 1


def _fleet(args: argparse.Namespace) -> int:
    from cri_proxy.cli.manifests import fleet_of
    from cri_proxy.cli.output import emit
    from cri_proxy.cli.render.nodes import fleet_text

    _refuse_options(args, "captured nodes", "nodes", "config")
    found = fleet_of(args)
    emit(found, args.output, fleet_text)
    return int(any(each.problem for each in found))


def _plan(args: argparse.Namespace, manifests: Sequence[tuple[str, str]]) -> int:
    from cri_proxy.cli.manifests import plans_of
    from cri_proxy.cli.output import emit
    from cri_proxy.cli.render.plan import plan_text
    from cri_proxy.simulate.plan.compare import comparison

    _refuse_options(args, "manifests, of which a refusal always is a no", *(_DEFAULTS.keys() - {"fail_on_refusal"}))
    plans = plans_of(args, manifests)
    if args.html is not None:
        from cri_proxy.cli.render.plan_page import plan_page

        write_text(args.html, plan_page(plans), "page")
    plain: object = plans[0].json_value() if len(plans) == 1 else comparison(plans[0], plans[1])
    emit(plans, args.output, plan_text, plain=lambda _: plain)
    return int(any(_is_no(plan, args) for plan in plans))


def _is_no(plan: "PlanResult", args: argparse.Namespace) -> bool:
    return bool(plan.refused) or (args.fail_on_span and plan.spans["nodes"] > 0)
