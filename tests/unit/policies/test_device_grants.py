from policies.device_grants import (
    DeviceGrant,
    by_cost,
    by_place,
    cost_names,
    device_words,
    listed_only,
    sources_of,
    with_given,
)


def test_a_device_is_named_by_type_and_minor_and_its_vf() -> None:
    nic = DeviceGrant("rdma", 1, 1, vf="0000:51:00.1")
    assert (nic.key, str(nic), str(DeviceGrant("gpu", 0, 100))) == (("rdma", 1), "rdma 1 VF 0000:51:00.1", "gpu 0")
    assert sources_of([nic]) == ("rdma/1",)


def test_a_device_is_by_cost_where_it_was_asked_for_by_the_type_of_a_cost_file() -> None:
    gpu, nic = listed_only("example.com/gpu/gpu0"), listed_only("nic/eth0")
    both, share = DeviceGrant("gpu", 1, 100, listed_as="nvidia.com/gpu/1"), DeviceGrant("gpu", 0, 50)
    every = (gpu, nic, both, share)
    assert (by_cost(every), by_place(every)) == ((gpu, nic, both), (share,))
    assert cost_names(every) == ("example.com/gpu/gpu0", "nic/eth0", "nvidia.com/gpu/1")
    assert sources_of(every) == (*cost_names(every), "gpu/0")


def test_given_devices_stand_beside_those_that_a_container_has_and_none_twice() -> None:
    own, given = DeviceGrant("gpu", 0, 100), DeviceGrant("gpu", 0, 100, is_given=True)
    vf = DeviceGrant("gpu", 0, 1, vf="0000:11:00.1", is_given=True)
    assert with_given((own,), (given, vf)) == (own, vf)
    assert with_given((), (given,)) == (given,)


def test_a_container_is_said_to_have_whole_devices_shares_and_vfs() -> None:
    parts = (DeviceGrant("gpu", 0, 100), DeviceGrant("gpu", 1, 25), DeviceGrant("rdma", 0, 1, vf="0000:10:00.1"))
    words = device_words((listed_only("x.io/gpu/g0"), *parts))
    assert words == ("x.io/gpu/g0", "gpu/0", "gpu/1:25", "rdma/0@0000:10:00.1")
