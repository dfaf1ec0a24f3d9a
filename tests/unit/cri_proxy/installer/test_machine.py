"""Checks that must hold and last, files that others change meanwhile; kills are in tests/faults/test_installer.py."""

from collections.abc import Iterator

import pytest

from cri_proxy.installer.host import Content
from cri_proxy.installer.journal import InstallPhase
from cri_proxy.installer.machine import Check
from tests.fakes.installer_host import Rig, rig
from tests.fakes.made_up_roots import CONFIG, OURS, put

FLAGS = "var/lib/kubelet/kubeadm-flags.env"


@pytest.fixture
def made() -> Iterator[Rig]:
    with rig("kubeadm") as made:
        yield made


def answers(*problems: str) -> Check:
    """A check that gives these, one after the other, two seconds apart; the last one stays."""

    def begin() -> object:
        ahead = list(problems)
        return lambda: ahead.pop(0) if len(ahead) > 1 else ahead[0]

    return Check(begin, 20, 5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("problems", "expected"),
    [
        (("",), ""),
        (("no", "no", ""), ""),
        (("", "no", "", "no", "", "no", "", "no", "", "no", "never"), "never"),
        (("no",), "no"),
    ],
)
def test_a_check_has_to_hold_and_to_last(made: Rig, problems: tuple[str, ...], expected: str) -> None:
    assert made.installation("one").wait_for(answers(*problems)) == expected


def test_one_that_holds_only_at_the_end_has_not_lasted(made: Rig) -> None:
    assert made.installation("one").wait_for(answers(*["no"] * 9, "")) == "it held for too short a time"


def test_what_others_changed_in_the_kubelets_file_since_is_left_to_them(made: Rig) -> None:
    made.install("one")
    text = (made.host.root / FLAGS).read_text()
    put(made.host.root, FLAGS, text.replace('="', '="--v=4 '))
    installation = made.installation("one")
    installation.uninstall()
    installation.run()
    left = (made.host.root / FLAGS).read_text()
    assert "--v=4" in left and OURS not in left and "unix:///run/containerd/containerd.sock" in left


def test_an_endpoint_that_others_chose_since_is_theirs(made: Rig) -> None:
    made.install("one")
    text = (made.host.root / FLAGS).read_text().replace(OURS, "unix:///run/crio/crio.sock")
    put(made.host.root, FLAGS, text)
    installation = made.installation("one")
    installation.uninstall()
    installation.run()
    assert (made.host.root / FLAGS).read_text() == text


def test_a_configuration_that_an_operator_wrote_since_stays(made: Rig) -> None:
    made.install("one")
    put(made.host.root, "etc/cri-proxy/cri-proxy.yaml", "policy: none\n")
    installation = made.installation("one")
    installation.uninstall()
    installation.run()
    assert made.host.read("/etc/cri-proxy/cri-proxy.yaml") == Content("policy: none\n")


def test_a_configuration_that_was_there_before_is_used(made: Rig) -> None:
    put(made.host.root, "etc/cri-proxy/cri-proxy.yaml", "policy: none\n")
    made.install("one")
    assert made.host.read("/etc/cri-proxy/cri-proxy.yaml") == Content("policy: none\n")


def test_a_failed_installation_may_begin_again(made: Rig) -> None:
    made.host.system.is_refused = True
    journal = made.install("one")
    assert journal is not None and journal.phase is InstallPhase.FAILED
    made.host.system.is_refused = False
    journal = made.install("one")
    assert journal is not None and journal.phase is InstallPhase.DONE
    assert CONFIG not in journal.reason


def test_what_is_not_installed_cannot_be_uninstalled(made: Rig) -> None:
    installation = made.installation("one")
    installation.uninstall()
    assert installation.run() is None
    made.host.system.is_refused = True
    made.install("one")
    installation.uninstall()
    journal = installation.run()
    assert journal is not None and journal.phase is InstallPhase.FAILED
