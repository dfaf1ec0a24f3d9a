from pathlib import Path

from cri_proxy.http.routes import build_routes
from cri_proxy.http.server import AdminServer
from tests.fakes.views import FixedDaemon, explanation, status_view
from tests.testbed.daemon import AdminSocket


async def test_answers_are_the_values_that_the_daemon_gave(tmp_path: Path) -> None:
    server, admin = AdminServer(build_routes(FixedDaemon())), AdminSocket(tmp_path / "admin.sock")
    await server.listen_unix(admin.path)
    assert await admin.status() == status_view()
    assert (await admin.explain("web")).decisions == (explanation(),)
    assert (await admin.explain("nobody")).decisions == ()
    await server.close()


async def test_a_daemon_decides_once_it_has_recovered_and_not_where_nobody_answers(tmp_path: Path) -> None:
    daemon, admin = FixedDaemon(), AdminSocket(tmp_path / "admin.sock")
    answers = [await admin.decides()]
    server = AdminServer(build_routes(daemon))
    await server.listen_unix(admin.path)
    answers.append(await admin.decides())
    daemon.is_ready = False  # its runtime is away
    answers.append(await admin.decides())
    daemon.is_recovered = False
    answers.append(await admin.decides())
    await server.close()
    assert answers == [False, True, True, False]
