from policies.device_grants import NOTHING_HELD, DeviceGrant, HeldDevices, sources_of, with_given


def test_a_device_is_named_by_type_and_minor_and_its_vf() -> None:
    nic = DeviceGrant("rdma", 1, 1, vf="0000:51:00.1")
    assert (nic.key, str(nic), str(DeviceGrant("gpu", 0, 100))) == (("rdma", 1), "rdma 1 VF 0000:51:00.1", "gpu 0")
    assert sources_of([nic]) == ("rdma/1",)


def test_a_container_holds_something_if_it_has_a_device_of_either_kind() -> None:
    assert not NOTHING_HELD
    assert HeldDevices(("example.com/gpu/gpu0",))
    assert HeldDevices(allocated=(DeviceGrant("gpu", 0, 100),))


def test_given_devices_stand_beside_those_that_a_container_has_and_none_twice() -> None:
    own, given = DeviceGrant("gpu", 0, 100), DeviceGrant("gpu", 0, 100, is_given=True)
    vf = DeviceGrant("gpu", 0, 1, vf="0000:11:00.1", is_given=True)
    assert with_given((own,), (given, vf)) == (own, vf)
    assert with_given((), (given,)) == (given,)
