from cri_proxy.cri.devices.plugin_devices import annotated_devices, given_devices
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from policies.device_grants import DeviceGrant
from policies.devices import JoinedDevices, proved
from tests.fakes.device_policy import two_pairs

NODE = two_pairs()


def test_the_annotations_of_the_plugin_tell_of_parts_and_names_of_the_rest() -> None:
    config = pb.ContainerConfig(annotations={"allocated.cri-proxy.io/rdma": "1@0000:20:00.1", "other": "x"})
    config.CDI_devices.add(name="nvidia.com/gpu=GPU-1")
    config.CDI_devices.add(name="cri-proxy.io/vf=0000:20:00.1")
    gpu = DeviceGrant("gpu", 1, 100, is_given=True)
    vf = DeviceGrant("rdma", 1, 1, vf="0000:20:00.1", is_given=True)
    assert given_devices(config, JoinedDevices(NODE)) == ((gpu, vf), ())


def test_a_variable_alone_gives_nothing_since_a_pod_can_write_it() -> None:
    config = pb.ContainerConfig(envs=[pb.KeyValue(key="CRI_PROXY_ALLOCATED_GPU", value=b"0,1")])
    assert given_devices(config, JoinedDevices(NODE)) == ((), ())


def test_a_device_node_tells_of_a_device_that_nothing_else_names_and_no_verbs_which_many_may_have() -> None:
    config = pb.ContainerConfig(annotations={"allocated.cri-proxy.io/gpu": "0:25"})
    for path in ("/dev/gpu0", "/dev/gpu1", "/dev/uverbs1", "/dev/vfio/7"):
        config.devices.add(host_path=path)
    config.mounts.add(host_path="/dev/gpu1")  # a pod may ask for that
    proofs = {
        "/dev/gpu0": [proved(["GPU-0"])],
        "/dev/gpu1": [proved(["GPU-1"])],
        "/dev/uverbs1": [proved(["0000:20:00.0"])],
        "/dev/vfio/7": [proved(["0000:10:00.1"])],
    }
    given, _ = given_devices(config, JoinedDevices(NODE), proofs=proofs)
    assert [(str(each), each.amount, each.is_shared) for each in given] == [
        ("gpu 0", 25, False),
        ("gpu 1", 100, True),
        ("rdma 0 VF 0000:10:00.1", 1, False),
    ]
    del config.devices[:]
    assert [str(each) for each in given_devices(config, JoinedDevices(NODE), proofs=proofs)[0]] == ["gpu 0"]


def test_devices_stand_by_type_minor_and_vf_in_whatever_order_they_are_named() -> None:
    annotations = {"allocated.cri-proxy.io/rdma": "1,0", "allocated.cri-proxy.io/gpu": "1,0"}
    given, _ = annotated_devices(annotations)
    assert [str(each) for each in given] == ["gpu 0", "gpu 1", "rdma 0", "rdma 1"]


def test_an_annotation_that_cannot_be_read_is_reported_with_its_name() -> None:
    given, (problem,) = annotated_devices({"allocated.cri-proxy.io/gpu": "0,x"})
    assert given == ()
    assert str(problem).startswith("annotation allocated.cri-proxy.io/gpu: '0,x': expected MINOR")
