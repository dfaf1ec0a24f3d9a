import argparse
from pathlib import Path

import pytest

from cri_proxy.cli.arguments import add_machine, add_path, machine_of, root_of
from cri_proxy.errors import CommandFailed


def test_a_path_is_none_where_it_is_not_given() -> None:
    parser = argparse.ArgumentParser()
    add_path(parser, "--config", "PATH", "a file")
    assert parser.parse_args([]).config is None
    assert parser.parse_args(["--config", "/c"]).config == Path("/c")


def test_the_machine_is_the_host_unless_another_is_named() -> None:
    parser = argparse.ArgumentParser()
    add_machine(parser, more=" (or so)")
    assert parser.parse_args([]).machine == "host"
    assert "or a name of docs/reference/machines.md (or so)" in " ".join(parser.format_help().split())


def test_a_machine_that_cannot_be_opened_fails_the_command() -> None:
    with pytest.raises(CommandFailed, match="File name too long"):
        machine_of("x" * 300)


@pytest.mark.parametrize(("spec", "root"), [("host", "/"), ("/captured", "/captured"), ("/captured/sys", "/captured")])
def test_the_files_of_a_machine_are_below_the_directory_that_holds_sys(spec: str, root: str) -> None:
    assert root_of(spec) == Path(root)
