from cri_proxy.cri.cdi.names import cdi_name


def test_the_type_of_a_device_is_its_kind_and_may_have_slashes_of_its_own() -> None:
    assert cdi_name("example.com/gpu/gpu0") == "example.com/gpu=gpu0"
