import argparse

import pytest

from cri_proxy.cli.help.commands import ROWS
from cri_proxy.cli.help.options import options_of
from cri_proxy.cli.help.parser import CommandParser, command_parser, load_command
from cri_proxy.cli.main import run_command


def test_text_is_the_default_output() -> None:
    assert command_parser("status", load_command("status")).parse_args([]).output == "text"


def test_an_action_is_a_command_of_its_own() -> None:
    parser = command_parser("gpu score", load_command("gpu score"))
    assert parser.prog == "cri-proxy gpu score"
    assert parser.parse_args(["FILE", "--request", "2"]).output == "text"


def test_a_command_with_actions_lists_them_and_runs_none() -> None:
    command = load_command("gpu")
    assert "publish" in command_parser("gpu", command).format_help()
    with pytest.raises(SystemExit) as stop:
        command_parser("gpu", command).parse_args([])
    assert stop.value.code == 2


def test_wrong_usage_is_one_visible_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        CommandParser("x", formatter_class=argparse.HelpFormatter).error("unknown \x1b[2J")
    assert capsys.readouterr().err == "x: unknown \\x1b[2J; see x --help\n"


# The options that have an effect alone, by command; --state-dir of device-plugin too, which its service gives before
# the arguments of the operator, whose --inventory may be a file.
COUNT_ALONE = {
    "status": "admin url nodes namespace pod cpu pool kind problems watch output",
    "explain": "problems namespace admin output",
    "events": "since namespace pod follow admin output",
    "fit": "namespace admin output",
    "doctor": "before-removal config listen root admin output",
    "check-config": "machine all output",
    "lint": "config namespace output",
    "demo": "output",
    # It refuses what does not apply to scenarios, manifests or captured nodes once it has read which these are.
    "simulate": "machine config nodes namespace strategy random orders html fail-on-refusal fail-on-span output",
    "convert": "node-name node-group",
    "topology": "machine config svg",
    "capture": "sysfs-root state output",
    "select": "request busy must missing normalize method picture output",
    "device-plugin": "inventory resource offer links costs health health-command plugin-dir state-dir sysfs-root",
    "extender": "http links log-level",
    "exporter": "admin kubeconfig no-events no-topology node-condition once log-level",
    "config-agent": "from to group group-file cluster once",
    "installer": "host turn-back daemon-seconds node-seconds steady-seconds",
    "completion": "",
    "reset": "config dry-run runtime-endpoint state-dir sysfs-root output",
    # Its --prefer-closest-numa-nodes and that of generate depend on documents, of which a file has several.
    "hints merge": "policy prefer-closest-numa-nodes max-allowable-numa-nodes nodes output",
    "hints generate": "preferred-allocation-hints output",
    "hints compare": "nodes policy format output",
    "devices list": "machine health kubelet output",
    "devices allocate": "output",
    "devices hints": "output",
    "devices cdi": "write kind net sysfs-root output",
    "gpu topology": "output",
    "gpu allocate": "size available required policy mode output",
    "gpu score": "request available output",
    "gpu publish": "available feature-file free output",
    "costs derive": "machine device topo numa output",
}
WITHOUT_ACTIONS = [name for name, row in ROWS.items() if not row.actions]


@pytest.mark.parametrize("name", [name for name in WITHOUT_ACTIONS if name != "run"])  # its own are the file's
def test_an_option_counts_alone_or_is_refused_where_it_has_no_effect(name: str) -> None:
    refused = {option for row in getattr(load_command(name), "WITHOUT_EFFECT", ()) for option in row.options}
    options = {each.names for each in options_of(name) if each.names and "--help" not in each.names}
    alone = {f"--{word}" for word in COUNT_ALONE[name].split()}
    assert {names for names in options if bool(alone & set(names)) == bool(refused & set(names))} == set()
    assert alone | refused == {option for names in options for option in names if option in alone | refused}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("status --port 8891", "--port has no effect without --nodes"),
        ("status --kubeconfig=x", "--kubeconfig has no effect without --nodes"),
        ("status --admin unix:///a --address-type name", "--address-type has no effect without --nodes"),
        ("status --token-file t --ca-file c", "--ca-file has no effect without --url or --nodes; --token-file has"),
        ("status --timeout 5", "--timeout has no effect without --url or --nodes"),
        ("status --interval 1", "--interval has no effect without --watch"),
        ("status --sort cpus -ojson", "--sort has no effect without -o text"),
        ("status --nodes a=b --no-fold", "--no-fold has no effect with --nodes, which"),
        ("status --cpu 1 --sort kind", "--sort has no effect with --cpu, which"),
        ("config-agent --from a --to b --canary x=y", "--canary has no effect without --cluster"),
        ("config-agent --from a --to b --canary-steady 60", "--canary-steady has no effect without --canary"),
        (
            "config-agent --from a --to b --cluster --canary-timeout 9",
            "--canary-timeout has no effect without --canary",
        ),
        ("config-agent --from a --to b --node-name w1", "--node-name has no effect without --cluster"),
        ("config-agent --from a --to b --config-map a/b", "--config-map has no effect without --cluster"),
        ("config-agent --from a --to b --kubeconfig c", "--kubeconfig has no effect without --cluster"),
        ("config-agent --from a --to b --cluster --canary x --once", "--canary has no effect with --once"),
        ("exporter --node-name w1", "--node-name has no effect without --node-condition"),
        ("installer --turn-back --once", "--once has no effect with --turn-back"),
        ("installer --turn-back --node-name w1", "--node-name has no effect with --turn-back"),
        ("completion bash --admin unix:///a", "--admin has no effect without containers"),
        ("capture a.tar.xz --admin unix:///a", "--admin has no effect without --state"),
        ("gpu publish F --admin unix:///a --free 0", "--admin has no effect without --free daemon"),
        ("gpu allocate F --policy static-dgx2 --exact", "--exact has no effect without --policy best-effort"),
        ("select F --method greedy --seed 1", "--seed has no effect with --method greedy"),
        ("select F --method anneal --budget-ms 1", "--budget-ms has no effect without --method auto or exact"),
        ("check-config --all d --node-group g", "--node-group has no effect with --all"),
        ("demo --pace 0 -o json", "--pace has no effect without -o text"),
        ("topology --svg m.svg --output yaml", "--output has no effect with --svg"),
        ("devices cdi --scan", "--scan has no effect without FILE"),
        ("devices cdi F --state-dir d", "--state-dir has no effect with FILE unless --scan"),
    ],
)
def test_an_option_without_effect_is_wrong_usage(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(line.split()) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        "status --nodes pool=gpu --port 1 --kubeconfig c --timeout 1",
        "status --watch --interval 1 --sort cpus",
        "config-agent --from a --to b --cluster --canary x=y --canary-steady 1 --node-name w1",
        "gpu publish F --free daemon --admin unix:///a",
        "gpu allocate F --exact",
        "select F --seed 1 --budget-ms 1",
        "devices cdi F --scan --state-dir d",
    ],
)
def test_an_option_with_the_one_that_it_needs_is_not_refused(line: str) -> None:
    name = next(name for name in WITHOUT_ACTIONS if line.startswith(f"{name} "))
    parser = command_parser(name, load_command(name))
    parser.parse_args(line.removeprefix(f"{name} ").split())
