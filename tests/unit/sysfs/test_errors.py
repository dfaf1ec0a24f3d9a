from sysfs.errors import FileMissing, MachineSourceError, SysfsBaseError, SysfsError


def test_a_sysfs_error_names_the_file_and_both_sides() -> None:
    error = SysfsError("sys/devices/system/node/node3/cpulist", "a CPU list", "'0-'")
    assert str(error) == "sys/devices/system/node/node3/cpulist: expected a CPU list, got '0-'"


def test_a_missing_file_is_a_sysfs_error_of_its_own_kind() -> None:
    assert issubclass(FileMissing, SysfsError)
    assert issubclass(SysfsError, SysfsBaseError)


def test_a_source_error_names_the_source() -> None:
    assert str(MachineSourceError("x.tar.xz", "no sys/ in it")) == "machine 'x.tar.xz': no sys/ in it"
