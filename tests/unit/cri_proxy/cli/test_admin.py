import argparse
from pathlib import Path

import pytest

from cri_proxy.cli.admin import add_admin_option, fetch
from cri_proxy.http.client import DaemonUnreachable
from cri_proxy.node.status.model import Health, StatusView
from tests.fakes.serving import served
from tests.fakes.views import status_view


@pytest.mark.parametrize(
    ("argv", "path"),
    [([], "/run/cri-proxy/admin.sock"), (["--admin", "unix:///x.sock"], "/x.sock"), (["--admin=/y.sock"], "/y.sock")],
)
def test_the_admin_socket_is_where_the_daemon_puts_it(argv: list[str], path: str) -> None:
    parser = argparse.ArgumentParser()
    add_admin_option(parser)
    assert parser.parse_args(argv).admin == Path(path)


def test_a_view_comes_back_as_it_was(tmp_path: Path) -> None:
    with served(tmp_path / "a.sock"):
        assert fetch(tmp_path / "a.sock", "/api/v1/status", StatusView) == status_view()


def test_another_kind_of_answer_is_an_error(tmp_path: Path) -> None:
    with served(tmp_path / "a.sock"), pytest.raises(DaemonUnreachable, match="another version"):
        fetch(tmp_path / "a.sock", "/api/v1/status", Health)
