"""Read which devices of the inventory others chose for a container: the kubelet with a device plugin. Pure.

Their annotations and CDI names stand in the container's own configuration, where no pod can put any: the pod's own
annotations are those of its sandbox. Others the kubelet alone tells of: a plugin may name devices in variables, which
a pod can write too.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from cri_proxy.cri.annotations.device_filter import POD_RESOURCES
from cri_proxy.cri.annotations.forms import AnnotationProblem, cut
from cri_proxy.cri.cdi.variables import kind_of
from cri_proxy.cri.device_names.names import AllocatedDevices
from cri_proxy.cri.device_sources import cdi_names
from cri_proxy.cri.devices.names import NO_PROOFS, Proofs, devices_allocated, devices_named, kinds_of, source_of
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from policies.base import DeviceLocality
from policies.device_grants import DeviceGrant
from policies.devices import DEVICE_TYPES, JoinedDevices, PluginVariableError, read_annotated

Problems = tuple[AnnotationProblem, ...]


def given_devices(
    config: pb.ContainerConfig,
    joined: JoinedDevices,
    allocated: Iterable[str] = (),
    proofs: Proofs = NO_PROOFS,
    watched: Collection[str] = (),
) -> tuple[tuple[DeviceGrant, ...], Problems]:
    """Return the devices that this container was given, by type and minor, and what could not be read of them.

    The annotations of the device plugin come first: they also name parts of devices. ``allocated`` are the kubelet's
    names, RESOURCE/ID. ``proofs`` as in ``devices_named``, also of the device nodes: a device that nothing names is
    known by them alone. These tell neither parts nor shares of it, so that it may be shared. CDI names that are only
    ``watched`` count for nothing.
    """
    annotated, problems = annotated_devices(config.annotations)
    names = (name for name in cdi_names(config) if name not in watched)
    named = with_named(annotated, names, joined, allocated, proofs)
    known = {grant.key for grant in named}
    # Ids may tell nothing, as the serial numbers of Habana's plugin; the nodes do, and no pod can ask for one.
    pieces = (piece for path in node_paths(config) for piece in joined.behind(proofs.get(path, ())))
    nodes = {grant: None for grant in map(joined.given, dict.fromkeys(pieces)) if grant.key not in known}
    found = (*named, *(replace(grant, is_shared=not grant.vf) for grant in nodes))
    return tuple(sorted(found, key=_order)), problems


def node_paths(config: pb.ContainerConfig) -> tuple[str, ...]:
    """Return the host paths of its device nodes: of device plugins, and of raw block volumes, which are no device here.

    A pod can name neither path.
    """
    return tuple(dict.fromkeys(device.host_path for device in config.devices if device.host_path.startswith("/")))


def with_named(
    given: Iterable[DeviceGrant],
    names: Iterable[str],
    joined: JoinedDevices,
    allocated: Iterable[str] = (),
    proofs: Proofs = NO_PROOFS,
) -> tuple[DeviceGrant, ...]:
    """Return devices that were given to a container, by type and minor.

    With those that its CDI names are of, and those that the kubelet has ``allocated`` by these names. ``proofs`` as in
    ``devices_named``.
    """
    found = {(grant.key, grant.vf): grant for grant in given}
    for grant in (*devices_allocated(allocated, joined), *devices_named(names, joined, proofs)):
        found.setdefault((grant.key, grant.vf), grant)
    return tuple(sorted(found.values(), key=_order))


def annotated_devices(annotations: Mapping[str, str]) -> tuple[tuple[DeviceGrant, ...], Problems]:
    """Return the devices that the annotations of a container name, and what could not be read."""
    try:
        given = read_annotated(annotations)
    except PluginVariableError as error:
        return (), (AnnotationProblem(error.name, cut(error.value), error.problem),)
    return tuple(sorted(given, key=_order)), ()


def localities_once(
    localities: Iterable[DeviceLocality],
    places: Iterable[AllocatedDevices],
    given: Iterable[DeviceGrant],
    joined: JoinedDevices,
) -> tuple[DeviceLocality, ...]:
    """Return these localities, each of a device that was allocated to the container with the name of the device.

    Where a source lists one that was given, its place there stands in place of the kubelet's.
    """
    sources = {grant.source for grant in given}
    found: dict[str, tuple[str, ...]] = {}
    by_plugin: dict[str, tuple[str, ...]] = {}
    for group in places:
        source = group.place.source
        resource = source.removesuffix(",".join(group.ids))
        listed = (source_of(f"{resource.removeprefix(POD_RESOURCES)}{each}", joined) for each in group.ids)
        devices = tuple(dict.fromkeys(listed))
        found[source] = devices if sources.issuperset(devices) else ()
        by_plugin[source] = tuple(f"{resource}{each}" for each in group.ids)
    return tuple(
        replace(each, devices=found[each.source] or each.devices or by_plugin[each.source])
        if each.source in found
        else each
        for each in localities
    )


def names_of_plugin(config: pb.ContainerConfig) -> tuple[str, ...]:
    """Return those CDI names of this container that our device plugin has answered with, as its annotations tell."""
    given, _ = annotated_devices(config.annotations)
    kinds = {kind for grant in given for kind in kinds_of(grant)}
    return tuple(name for name in cdi_names(config) if kind_of(name) in kinds)


def _order(grant: DeviceGrant) -> tuple[bool, str | int, int | str, str]:
    is_listed_only = bool(grant.cost_name)
    return is_listed_only, grant.kind if is_listed_only else DEVICE_TYPES.index(grant.kind), grant.minor, grant.vf
