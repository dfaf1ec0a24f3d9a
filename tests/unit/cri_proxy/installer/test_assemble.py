"""The parts put together; the whole of it runs in tests/vm."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cri_proxy.errors import CriProxyError
from cri_proxy.installer import assemble
from cri_proxy.installer.assemble import Options, RenewedPauses, agent_of, installation_of
from tests.fakes.installer_host import NoLog

OPTIONS = Options("n1", "kube-system", "/c", Path("/host"), Path("/opt/cri-proxy/one"), (1.0, 2.0, 3.0, 4.0))


class Turns:
    """A Lease that counts how often it was renewed, and whose server is away."""

    renewals = 0

    def renew(self) -> None:
        self.renewals += 1
        raise CriProxyError("away")


def test_a_pause_renews_the_lease_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds, turn = [0.0], Turns()
    monkeypatch.setattr(assemble, "steady_seconds", lambda: seconds[0])
    monkeypatch.setattr("time.sleep", lambda wait: seconds.__setitem__(0, seconds[0] + wait))
    pause = RenewedPauses(turn)  # type: ignore[arg-type]
    for _ in range(16):
        pause(2)
    assert (turn.renewals, seconds[0]) == (3, 32)


def test_the_way_back_needs_no_cluster(tmp_path: Path) -> None:
    installation = installation_of(Options("", "", "", tmp_path, tmp_path, OPTIONS.seconds), NoLog())
    installation.turn_back("late")
    assert installation.run() is None


def test_outside_of_a_pod_there_is_no_installer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(CriProxyError, match="no pod with an account"):
        agent_of(OPTIONS, NoLog(), tmp_path)


def test_the_bounds_are_those_of_the_command_line() -> None:
    bounds = OPTIONS.bounds
    assert (bounds.daemon_seconds, bounds.node_seconds, bounds.steady_seconds) == (1.0, 2.0, 3.0)


ENTERS = """
import sys
from pathlib import Path
from cri_proxy.errors import CriProxyError
from cri_proxy.installer import assemble

class Away:
    def state(self):
        raise CriProxyError("away")

tree = assemble._kept(Path(sys.argv[2]))
root = assemble.enter(Path(sys.argv[1]), Away())
sys.path.clear()
facts = assemble._facts(root)
print(root, facts.kubelet.distribution.name, Path("/etc/linked").read_text(), (tree / "inside").read_text())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root enters another root")
def test_in_the_host_absolute_links_lead_where_they_do_for_it_and_the_image_is_still_there(tmp_path: Path) -> None:
    tree, root = tmp_path / "tree", tmp_path / "root"
    for place, text in ((tree / "inside", "ours"), (root / "etc/there", "theirs")):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    (root / "etc/linked").symlink_to("/etc/there")
    (root / "disk/etc/rancher/k3s").mkdir(parents=True)
    (root / "etc/rancher").symlink_to("/disk/etc/rancher")
    (root / "proc").mkdir()
    mounted = ["unshare", "--mount", "sh", "-c", 'mount --rbind /proc "$1/proc" && exec "$2" -c "$3" "$1" "$4"', "sh"]
    done = subprocess.run(
        [*mounted, root, sys.executable, ENTERS, tree], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("/ k3s theirs ours\n", "")


def test_a_pod_without_an_account_says_so(tmp_path: Path) -> None:
    with pytest.raises(CriProxyError, match="missing: cannot open"):
        agent_of(OPTIONS, NoLog(), tmp_path / "missing")
