"""List which options decide what a request's annotations leave open, with their values in words; decides nothing."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from policies.base import QosClass, Request
from policies.policy import Default
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
    if preferences.prefer_reserved is None and options.is_reserved_namespace(namespace):
        yield Default("prefer_reserved", f"as namespace {namespace} is reserved", _reserved_by(namespace, options))
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
    if preferences.threads is None and (demand.whole or demand.hides):
        yield _default("threads", options.threads.value, "Hyperthreads", options.threads.value)
    if preferences.distribution is None and demand.distribution is not CpuDistribution.PACK:
        yield _default("distribution", demand.distribution.value, "CPUDistribution", demand.distribution.value)
    if preferences.single_node is None and demand.single_node:
        yield _default("single_node", "required: CPUs of one node", "StrictSingleNUMANode", True)
    wants_cores = demand.hides or demand.threads is not Threads.ANY
    if preferences.strict_threads is None and options.strict_threads and wants_cores:
        yield _default("strict_threads", "required: refused without such cores", "StrictHyperthreads", True)
    if preferences.priority is None and options.cpu_priority is not CpuPriority.NONE:
        yield _default("priority", options.cpu_priority.value, "DefaultCPUPriority", options.cpu_priority.value)
    yield from _of_pools(request, options)
    if preferences.burst_level is None and demand.burst_level is not None:
        level = options.unlimited_burst.value
        yield _default("burst_level", level, "UnlimitedBurstable", level)


def _of_pools(request: Request, options: TopologyAwareOptions) -> Iterator[Default]:
    if request.preferences.pool_choice is None and options.pool_choice is not PoolStrategy.SPREAD:
        yield _default("pool_choice", options.pool_choice.value, "PoolChoice", options.pool_choice.value)


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


def _reserved_by(namespace: str, options: TopologyAwareOptions) -> str:
    if namespace == SYSTEM_NAMESPACE:
        return f"{SYSTEM_NAMESPACE} always is"
    glob = next((g for g in options.reserved_namespaces if fnmatchcase(namespace, g)), "")
    return f"{_GROUP}ReservedPoolNamespaces: {glob}"


def _default(field: str, value: str, option: str, setting: str | bool) -> Default:
    written = setting if isinstance(setting, str) else str(setting).lower()
    return Default(field, value, f"{_GROUP}{option}={written}")
