from pathlib import Path

from tests.testbed.daemon import program, run_arguments


def test_everything_that_the_daemon_writes_is_below_the_directory() -> None:
    arguments = run_arguments(Path("/d"), "unix:///r.sock", ("--relay", "grpc"))
    values = dict(zip(arguments[1::2], arguments[2::2], strict=True))
    assert values["--listen"] == "unix:///d/cri-proxy.sock"
    assert values["--state-dir"] == "/d/state"


def test_given_options_come_last_so_that_they_win() -> None:
    assert run_arguments(Path("/d"), "unix:///r.sock", ("--http", "127.0.0.1:0"))[-2:] == ("--http", "127.0.0.1:0")


def test_the_program_exists() -> None:
    assert Path(program()[0]).exists()
