from policies.device_requests import NOTHING_ASKED, DeviceAmount, DeviceAsk, summed

GPU, NIC = DeviceAmount("example.com/gpu", 2), DeviceAmount("example.com/nic", 1)
SHARE = (("koordinator.sh/gpu-core", 50),)


def test_either_spelling_asks_for_devices_and_texts_alone_for_none() -> None:
    assert DeviceAsk((GPU,)) and DeviceAsk(requests=SHARE)
    assert not NOTHING_ASKED and not DeviceAsk(annotations=(("a", "b"),))


def test_whole_devices_of_several_containers_add_up_and_amounts_do_not() -> None:
    asks = (DeviceAsk((GPU, NIC)), DeviceAsk((GPU,), SHARE), NOTHING_ASKED)
    assert summed(asks) == (DeviceAmount("example.com/gpu", 4), NIC)
