import shlex
import subprocess
from pathlib import Path

import pytest

from cri_proxy.cli.help.commands import COMMANDS, ROWS
from cri_proxy.cli.help.options import options_of
from cri_proxy.cli.help.scripts import script

LEAVES = [name for name, row in ROWS.items() if not row.actions]


def completed(directory: Path, *words: str, names: str = "") -> list[str]:
    """What bash offers for the last word; ``names`` are the containers of the daemon."""
    (directory / "script").write_text(script("bash"))
    (directory / "names").write_text(names)
    code = [
        f"cd {shlex.quote(str(directory))}; cri-proxy() {{ cat names; }}; source ./script",
        f"COMP_WORDS=({shlex.join(['cri-proxy', *words])}); COMP_CWORD={len(words)}; _cri_proxy",
        'printf "%s\\n" "${COMPREPLY[@]}"',
    ]
    done = subprocess.run(["bash", "-c", "\n".join(code)], capture_output=True, text=True, check=True, timeout=30)
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("sta",), ["status"]),
        (("gpu", ""), ["topology", "allocate", "score", "publish"]),
        (("help", "expl"), ["explain"]),
        (("status", "--ki"), ["--kind"]),
        (("gpu", "score", "--r"), ["--request"]),
        (("status", "--kind", "e"), ["exclusive"]),
        (("status", "--kind", "=", "m"), ["mixed"]),
        (("status", "--kind", "="), ["exclusive", "isolated", "mixed", "shared", "reserved", "preserve"]),
        (("status", "--namespace", ""), [""]),
        (("status", "-o", "j"), ["json"]),
        (("simulate", "na"), ["names"]),
        (("capture", "--sysfs-root", "scr"), ["script"]),
        (("completion", "z"), ["zsh"]),
    ],
)
def test_bash_completes(tmp_path: Path, words: tuple[str, ...], offered: list[str]) -> None:
    assert completed(tmp_path, *words) == offered


def test_bash_completes_the_names_of_containers(tmp_path: Path) -> None:
    names = "db\ndb/log\nweb\nweb/main\n"
    assert completed(tmp_path, "explain", "web", names=names) == ["web", "web/main"]


def test_a_name_is_no_code_for_bash(tmp_path: Path) -> None:
    """Names come from those who make pods."""
    assert completed(tmp_path, "explain", "x", names="x$(touch broken)\n") == ["x\\$\\(touch\\ broken\\)"]
    assert not (tmp_path / "broken").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_has_every_command_and_option(shell: str) -> None:
    text = script(shell)
    assert [name for name in COMMANDS if name not in text] == []
    names = {name for leaf in LEAVES for option in options_of(leaf) for name in option.names}
    spelt = {name: f"-l {name[2:]} " if shell == "fish" and name.startswith("--") else name for name in names}
    assert [name for name, spelling in spelt.items() if shell != "fish" or "--" in name if spelling not in text] == []


def test_a_script_is_the_same_each_time() -> None:
    assert script("zsh") == script("zsh")
