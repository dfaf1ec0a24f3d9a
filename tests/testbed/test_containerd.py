"""The configuration of a private containerd; that it works is told by the end-to-end tests."""

import tomllib
from pathlib import Path

from cri_proxy.cri_client.pods import IMAGE
from tests.testbed.containerd import PrivateContainerd, configuration

CRI = "io.containerd.grpc.v1.cri"


def test_everything_that_containerd_writes_is_below_its_directory() -> None:
    settings = tomllib.loads(configuration(Path("/d"), snapshotter="native", restrict_oom_score_adj=True))
    cri = settings["plugins"][CRI]
    paths = [settings["root"], settings["state"], settings["grpc"]["address"]]
    paths += [cri["cni"]["conf_dir"], cri["containerd"]["runtimes"]["runc"]["options"]["Root"]]
    assert all(path.startswith("/d/") for path in paths)


def test_the_sandbox_runs_from_our_image() -> None:
    settings = tomllib.loads(configuration(Path("/d"), snapshotter="overlayfs", restrict_oom_score_adj=False))
    assert settings["plugins"][CRI]["sandbox_image"] == IMAGE
    assert settings["plugins"][CRI]["containerd"]["snapshotter"] == "overlayfs"
    assert settings["plugins"][CRI]["restrict_oom_score_adj"] is False


def test_a_kubelet_in_front_of_it_keeps_logs_and_cgroups_where_they_are_removed() -> None:
    node = PrivateContainerd(Path("/d/x")).node
    assert (node.log_directory, node.cgroup_root) == ("/d/x/logs", "/x")
