"""Read the devices that a CDI specification names in what it adds to containers. Pure.

Source: the CDI specification (cncf-tags/container-device-interface, SPEC.md): ``containerEdits`` of a device or of the
whole file with ``deviceNodes``, ``mounts``, ``env`` and ``netDevices``, and ``annotations`` beside it. What
``intelRdt`` and hooks say is no device.
"""

from collections.abc import Iterator, Mapping

from cri_proxy.cri.device_names.mount_rules import mount_counts
from cri_proxy.cri.device_names.names import DeviceName, each_once
from cri_proxy.cri.device_names.variables import VISIBLE_DEVICES, named_addresses, named_in_variables


def named_by_edits(holder: Mapping[object, object]) -> tuple[DeviceName, ...]:
    """Return the devices behind a device of a specification, or behind the whole file. ``via`` is a variable, or ''.

    A device without nodes is often named by a mount of its directory in sysfs, or by a variable alone.
    """
    edits = holder.get("containerEdits")
    edits = edits if isinstance(edits, dict) else {}
    return each_once((*_paths(edits), *_interfaces(edits), *_variables(edits), *_annotations(holder)))


def _paths(edits: Mapping[object, object]) -> Iterator[DeviceName]:
    nodes = (node.get("hostPath") or node.get("path") for node in _entries(edits, "deviceNodes"))
    mounts = (mount.get("hostPath") for mount in _entries(edits, "mounts") if _mount_counts(mount))
    for path in (*nodes, *mounts):
        if isinstance(path, str) and path.startswith("/"):
            yield DeviceName("path", path)


def _mount_counts(mount: Mapping[object, object]) -> bool:
    host, container, options = mount.get("hostPath"), mount.get("containerPath"), mount.get("options")
    if not isinstance(host, str):
        return False
    is_read_only = isinstance(options, list) and "ro" in options
    return mount_counts(host, container if isinstance(container, str) else host, is_read_only=is_read_only)


def _interfaces(edits: Mapping[object, object]) -> Iterator[DeviceName]:
    for device in _entries(edits, "netDevices"):
        name = device.get("hostInterfaceName")
        # It becomes a part of a path in sysfs.
        if isinstance(name, str) and name.strip(".") and "/" not in name:
            yield DeviceName("interface", name)


def _variables(edits: Mapping[object, object]) -> Iterator[DeviceName]:
    """Yield the names in variables: those that device plugins set, and any other that is a list of PCI addresses."""
    env = edits.get("env")
    for text in env if isinstance(env, list) else ():
        name, _, value = text.partition("=") if isinstance(text, str) else ("", "", "")
        found = named_in_variables({name: value}).names or named_addresses(value, name)
        yield from found
        if name == VISIBLE_DEVICES and not found:
            yield DeviceName("gpu", "void", name)  # no GPU: it still takes the place of the container's own variable


def _annotations(holder: Mapping[object, object]) -> Iterator[DeviceName]:
    annotations = holder.get("annotations")
    for value in annotations.values() if isinstance(annotations, dict) else ():
        if isinstance(value, str):
            yield from named_addresses(value, "")


def _entries(edits: Mapping[object, object], key: str) -> Iterator[Mapping[object, object]]:
    entries = edits.get(key)
    return (entry for entry in entries if isinstance(entry, dict)) if isinstance(entries, list) else iter(())
