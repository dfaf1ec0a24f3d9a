"""An installation that is killed before each of its deeds, and goes on: forward or back, and never in between.

The host is a made-up root of each distribution that an installation is possible on.
"""

from collections.abc import Callable

import pytest

from cri_proxy.installer.journal import InstallPhase
from tests.fakes.installer_host import Killed, Rig, guards, rig, rows
from tests.fakes.made_up_roots import OURS

# A list in YAML, flags on lines, flags in an environment file: the ways in which a kubelet is told where to call.
KINDS = ("k3s", "MicroK8s", "kubeadm")
Story = Callable[[Rig], object]


def holds(rig: Rig) -> None:
    """What must be so at every moment: the kubelet has a runtime, now and after a boot, or is led back to one."""
    host, journal = rig.host, rig.journal
    assert not host.uses_proxy or host.system.daemon, host.deeds
    is_on_its_way = journal is not None and journal.phase is InstallPhase.FORWARD
    if host.uses_proxy and is_on_its_way and not journal.base:  # type: ignore[union-attr]
        assert guards(host), host.deeds


def killed_everywhere(name: str, before: Story, story: Story, check: Story) -> int:
    """Play the story, killed before its first deed, its second, and so on; and after each kill again, to its end."""
    killed_at = 0
    while True:
        with rig(name) as made:
            before(made)
            made.host.deeds.clear()
            made.host.observe = lambda: holds(made)
            made.host.killed_at = killed_at
            try:
                story(made)
            except Killed:
                made.host.killed_at = -1
                story(made)
                check(made)
                killed_at += 1
            else:
                check(made)
                return killed_at


def nothing(rig: Rig) -> None:
    """A host that nobody has touched."""


def install_one(rig: Rig) -> None:
    rig.install("one")


def uninstall(rig: Rig) -> None:
    """As after a kill too: what is on its way goes on."""
    installation = rig.installation("one")
    journal = installation.journal
    if journal is not None and journal.phase is InstallPhase.DONE:
        installation.uninstall()
    installation.run()


def is_untouched(files: dict[str, str]) -> Story:
    def check(rig: Rig) -> None:
        assert rig.files() == files
        assert (rig.host.system.daemon, rig.host.system.enabled) == ("", set())
        assert rig.host.system.endpoint != OURS

    return check


def is_installed(release: str) -> Story:
    def check(rig: Rig) -> None:
        journal = rig.journal
        assert journal is not None and (journal.phase, journal.installed) == (InstallPhase.DONE, release)
        assert rig.host.system.daemon == release and rig.host.uses_proxy
        assert rig.host.system.enabled == {"cri-proxy.service"}
        assert not any("systemd/system/cri-proxy-turn" in path for path in rig.files())
        others = [path for path in rig.files() if path.startswith("opt/cri-proxy/") and f"/{release}/" not in path]
        assert others == ["opt/cri-proxy/current"]

    return check


@pytest.mark.parametrize("name", rows())
def test_every_distribution_is_installed_on_and_left_as_it_was(name: str) -> None:
    with rig(name) as made:
        before = made.files()
        made.host.observe = lambda: holds(made)
        made.install("one")
        is_installed("one")(made)
        uninstall(made)
        is_untouched(before)(made)


@pytest.mark.parametrize("name", KINDS)
def test_an_installation_that_is_killed_anywhere_is_brought_to_its_end(name: str) -> None:
    assert killed_everywhere(name, nothing, install_one, is_installed("one")) > 15


@pytest.mark.parametrize(("name", "fault"), [("kubeadm", "daemon"), ("k3s", "kubelet"), ("MicroK8s", "kubelet")])
def test_one_that_fails_leaves_no_trace_wherever_it_is_killed(name: str, fault: str) -> None:
    found: dict[str, str] = {}

    def break_it(rig: Rig) -> None:
        found.update(rig.files())
        rig.host.system.broken = frozenset({"one"} if fault == "daemon" else ())
        rig.host.system.is_refused = fault == "kubelet"

    def check(rig: Rig) -> None:
        journal = rig.journal
        assert journal is not None and (journal.phase, journal.installed) == (InstallPhase.FAILED, "")
        assert ("wait until the daemon" if fault == "daemon" else "wait until the Node") in journal.reason
        is_untouched(found)(rig)

    assert killed_everywhere(name, break_it, install_one, check) > 15


def test_an_uninstallation_that_is_killed_anywhere_gives_every_file_back() -> None:
    found: dict[str, str] = {}

    def install_first(rig: Rig) -> None:
        found.update(rig.files())
        install_one(rig)

    def check(rig: Rig) -> None:
        assert rig.journal is None
        is_untouched(found)(rig)

    assert killed_everywhere("kubeadm", install_first, uninstall, check) > 10


def test_an_upgrade_that_is_killed_anywhere_is_brought_to_its_end() -> None:
    def upgrade(rig: Rig) -> None:
        rig.install("two")

    assert killed_everywhere("kubeadm", install_one, upgrade, is_installed("two")) > 10


def test_an_upgrade_that_fails_leaves_the_old_release_running() -> None:
    found: dict[str, str] = {}

    def break_the_new_one(rig: Rig) -> None:
        install_one(rig)
        found.update(rig.files())
        rig.host.system.broken = frozenset({"two"})

    def check(rig: Rig) -> None:
        journal = rig.journal
        assert journal is not None and (journal.phase, journal.installed) == (InstallPhase.FAILED, "one")
        assert rig.files() == found
        assert (rig.host.system.daemon, rig.host.uses_proxy) == ("one", True)

    assert killed_everywhere("kubeadm", break_the_new_one, lambda rig: rig.install("two"), check) > 10


def test_the_guard_turns_back_what_no_pod_carries_on() -> None:
    """As after a boot with a daemon that does not come up: the timer's process knows no cluster."""
    with rig("k3s") as made:
        before = made.files()
        made.host.killed_at = -1
        made.host.system.is_refused = True
        made.host.observe = lambda: holds(made)
        deeds = made.host.deeds

        def kill_in_the_wait() -> None:
            if made.host.uses_proxy and deeds[-1] == "pause":
                raise Killed

        made.host.observe = kill_in_the_wait
        with pytest.raises(Killed):
            made.install("one")
        made.host.observe = lambda: holds(made)
        guard = made.installation("one")
        guard.turn_back("not done in time")
        journal = guard.run()
        assert journal is not None and (journal.phase, journal.reason) == (InstallPhase.FAILED, "not done in time")
        assert made.files() == before
        assert not made.host.uses_proxy


def test_the_guard_leaves_what_is_done_alone() -> None:
    with rig("kubeadm") as made:
        made.install("one")
        guard = made.installation("one")
        guard.turn_back("too late")
        guard.run()
        is_installed("one")(made)


def test_a_pod_in_its_wait_notices_that_the_guard_has_turned_back() -> None:
    with rig("kubeadm") as made:
        made.host.system.is_refused = True
        before = made.files()

        def guard_fires() -> None:
            if made.host.uses_proxy and made.host.deeds[-1] == "pause":
                made.host.observe = lambda: None
                made.installation("one").turn_back("not done in time")

        made.host.observe = guard_fires
        journal = made.install("one")
        assert journal is not None and journal.reason == "not done in time"
        assert made.host.system.seconds <= 4
        assert made.files() == before
