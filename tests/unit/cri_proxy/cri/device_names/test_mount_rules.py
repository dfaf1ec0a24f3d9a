import pytest

from cri_proxy.cri.device_names.mount_rules import mount_counts


@pytest.mark.parametrize("path", ["/mnt/nvme", "/sys/bus/pci/devices/0000:3b:00.0", "/etcetera"])
def test_what_data_may_be_written_to_counts(path: str) -> None:
    assert mount_counts(path, path, is_read_only=False)
    assert not mount_counts(path, path, is_read_only=True)


@pytest.mark.parametrize(("kind", "counts"), [("secret", False), ("configmap/a", False), ("empty-dir/a", True)])
def test_volumes_of_configuration_do_not_count(kind: str, *, counts: bool) -> None:
    path = f"/var/lib/kubelet/pods/1/volumes/kubernetes.io~{kind}"
    assert mount_counts(path, "/x", is_read_only=False) is counts


@pytest.mark.parametrize(
    ("host", "container"), [("", "/x"), ("/x", "/etc/hosts"), ("/lib/modules", "/m"), ("/x", "/dev/termination-log")]
)
def test_what_every_container_has_does_not_count(host: str, container: str) -> None:
    assert not mount_counts(host, container, is_read_only=False)
