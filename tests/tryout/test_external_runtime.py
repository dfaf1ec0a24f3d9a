import json

import pytest

from tests.tryout.external_runtime import systemd_in


@pytest.mark.parametrize(("options", "systemd"), [({"SystemdCgroup": True}, True), ({}, False), (None, False)])
def test_the_default_runtimes_option_tells_the_cgroup_driver(options: object, systemd: bool) -> None:
    containerd = {"defaultRuntimeName": "runc", "runtimes": {"runc": {"options": options}}}
    assert systemd_in(json.dumps({"containerd": containerd})) is systemd


def test_a_configuration_that_says_nothing_means_cgroupfs() -> None:
    assert systemd_in("{}") is False
