from cri_proxy.cri.cdi.conversion import Given, GivenMount
from cri_proxy.cri.cdi.edits import CdiNode
from cri_proxy.cri.cdi.write import notes_for, write_given
from cri_proxy.cri.proto import cri_v1_pb2 as pb

NODE = CdiNode("/dev/gpu0", "/dev/nvidia0", "rw")


def written(config: pb.ContainerConfig, given: Given) -> pb.ContainerConfig:
    write_given(config, given)
    return config


def test_nothing_given_changes_nothing() -> None:
    before = pb.ContainerConfig(envs=[pb.KeyValue(key="A", value=b"1")])
    assert written(pb.ContainerConfig.FromString(before.SerializeToString()), Given()) == before


def test_everything_stands_beside_what_is_the_pods() -> None:
    config = pb.ContainerConfig(envs=[pb.KeyValue(key="A", value=b"1")], devices=[pb.Device(container_path="/dev/a")])
    config.linux.security_context.supplemental_groups.extend([44])
    given = Given((("B", "2"),), (NODE,), (GivenMount("/lib/x", "/opt/x", True, "bidirectional"),), (44, 109))
    written(config, given)
    assert [env.key for env in config.envs] == ["A"]  # variables are written with all others
    assert config.devices[1] == pb.Device(container_path="/dev/gpu0", host_path="/dev/nvidia0", permissions="rw")
    assert list(config.mounts) == [
        pb.Mount(container_path="/lib/x", host_path="/opt/x", readonly=True, propagation=pb.PROPAGATION_BIDIRECTIONAL)
    ]
    assert list(config.linux.security_context.supplemental_groups) == [44, 109]


def test_what_has_the_same_name_or_place_is_replaced_as_by_a_runtime() -> None:
    config = pb.ContainerConfig(
        devices=[pb.Device(container_path="/dev//gpu0", host_path="/dev/null"), pb.Device(container_path="/dev/b")],
        mounts=[pb.Mount(container_path="/lib/x/", host_path="/tmp")],
    )
    written(config, Given((), (NODE,), (GivenMount("/lib/x", "/opt/x"),)))
    assert [device.host_path for device in config.devices] == ["", "/dev/nvidia0"]
    assert [mount.host_path for mount in config.mounts] == ["/opt/x"]


def test_fields_of_a_later_interface_stay_with_what_is_kept() -> None:
    unknown = b"\xfa\x3f\x03new"
    kept = pb.Device.FromString(pb.Device(container_path="/dev/b").SerializeToString() + unknown)
    config = pb.ContainerConfig(devices=[pb.Device(container_path="/dev/gpu0"), kept])
    written(config, Given((), (NODE,)))
    assert unknown in config.devices[0].SerializeToString()


def test_a_privileged_container_is_warned_that_its_nodes_may_have_the_hosts_names() -> None:
    plain, privileged = pb.ContainerConfig(), pb.ContainerConfig()
    privileged.linux.security_context.privileged = True
    given, same = Given(nodes=(NODE,), notes=("x",)), Given(nodes=(CdiNode("/dev/a", "/dev/a", "r"),))
    assert notes_for(plain, given) == ("x",)
    assert notes_for(privileged, same) == ()
    assert "in place of /dev/gpu0" in notes_for(privileged, given)[1]
