"""List which options decide what a request's annotations leave open, with their values in words; decides nothing."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from policies.answers import Default
from policies.base import QosClass, Request
from policies.preferences import CpuDistribution, CpuPriority, PoolStrategy, Threads
from policies.topology_aware.options import SYSTEM_NAMESPACE, TopologyAwareOptions
from policies.topology_aware.supply.demand import demand_of

_GROUP = "topologyAware."


def defaults_of(request: Request, options: TopologyAwareOptions) -> tuple[Default, ...]:
    """Return the options that decide a part of this request, in the order of ``Preferences``.

    >>> from policies.base import ContainerKey, Pod
    >>> from sysfs.cpuset import CpuSet
    >>> pod = Pod("uid", "web", "default", QosClass.GUARANTEED)
    >>> request = Request(ContainerKey("uid", "c0"), pod, 1000)
    >>> [d.option for d in defaults_of(request, TopologyAwareOptions(CpuSet(), CpuSet()))]
    ['topologyAware.PreferIsolatedCPUs=true', 'topologyAware.PreferSharedCPUs=false', 'topologyAware.Hyperthreads=any']
    """
    if request.preferences.preserve_cpu:
        return ()
    return (*_of_cpus(request, options), *_of_others(request, options))


def _of_cpus(request: Request, options: TopologyAwareOptions) -> Iterator[Default]:
    preferences, qos = request.preferences, request.pod.qos
    namespace = request.pod.namespace
    # On the reserved CPUs no other option about CPUs has a say.
    if preferences.prefer_reserved is None and options.is_reserved_namespace(namespace):
        yield Default("prefer_reserved", f"as namespace {namespace} is reserved", reserved_by(namespace, options))
        return
    demand = demand_of(request, options)
    whole_mcpu = request.cpu_request_mcpu if qos is QosClass.GUARANTEED else 0
    if whole_mcpu == 1000 and preferences.prefer_isolated is None and not preferences.require_isolated and demand.whole:
        value = "preferred" if options.prefer_isolated else "not wanted"
        yield _default("prefer_isolated", value, "PreferIsolatedCPUs", options.prefer_isolated)
    says_nothing = preferences.prefer_shared is None and not preferences.levels_up and not preferences.require_isolated
    if whole_mcpu >= 1000 and says_nothing:
        value = "whole CPUs are exclusive" if demand.whole else "preferred"
        yield _default("prefer_shared", value, "PreferSharedCPUs", options.prefer_shared)
    spreads = demand.distribution is not CpuDistribution.PACK
    cores = options.strict_threads and (demand.hides or demand.threads is not Threads.ANY)
    others: tuple[tuple[bool, str, str, str, str | bool], ...] = (
        (bool(demand.whole or demand.hides), "threads", "", "Hyperthreads", options.threads),
        (spreads, "distribution", "", "CPUDistribution", demand.distribution),
        (demand.single_node, "single_node", "required: CPUs of one node", "StrictSingleNUMANode", True),
        (cores, "strict_threads", "required: refused without such cores", "StrictHyperthreads", True),
        (options.cpu_priority is not CpuPriority.NONE, "priority", "", "DefaultCPUPriority", options.cpu_priority),
        (options.pool_choice is not PoolStrategy.SPREAD, "pool_choice", "", "PoolChoice", options.pool_choice),
        (demand.burst_level is not None, "burst_level", "", "UnlimitedBurstable", options.unlimited_burst),
    )
    for decides, field, value, option, setting in others:
        if decides and getattr(preferences, field) is None:
            yield _default(field, value or str(setting), option, setting)


def _of_others(request: Request, options: TopologyAwareOptions) -> Iterator[Default]:
    """Yield colocation, unless the container has affinities of its own (docs/placement.md, Affinity), and pinning."""
    if options.colocate_pods and not request.affinities:
        yield _default("affinities", "near the containers of its pod", "ColocatePods", True)
    if options.colocate_namespaces and not request.affinities:
        yield _default("affinities", "near the containers of its namespace", "ColocateNamespaces", True)
    if not options.pin_cpu:
        yield _default("preserve_cpu", "those of no container are written", "PinCPU", False)
    if not options.pin_memory:
        yield _default("preserve_memory", "those of no container are written", "PinMemory", False)


def reserved_by(namespace: str, options: TopologyAwareOptions) -> str:
    """Return what reserves this namespace, in words: the kind of it, or the option with its pattern."""
    if namespace == SYSTEM_NAMESPACE:
        return f"{SYSTEM_NAMESPACE} always is"
    glob = next((g for g in options.reserved_namespaces if fnmatchcase(namespace, g)), "")
    return f"{_GROUP}ReservedPoolNamespaces: {glob}"


def _default(field: str, value: str, option: str, setting: str | bool) -> Default:
    written = setting if isinstance(setting, str) else str(setting).lower()
    return Default(field, value, f"{_GROUP}{option}={written}")
