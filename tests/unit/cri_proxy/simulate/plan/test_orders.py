from cri_proxy.simulate.plan.nodes import Cluster
from cri_proxy.simulate.plan.orders import IN_ORDER, order_text, planned, worst_of
from cri_proxy.simulate.plan.pods import arrivals_of, read_workloads
from sysfs.descriptions.machine import describe

CLUSTER = Cluster(describe({"packages": 2, "cores": 4, "memory": "8Gi"}))
# Of 8 CPUs the small pods leave 3, so that the big one is refused; if it comes first, two small ones are.
TEXT = "---\n".join(
    f"kind: Pod\ncount: {count}\nmetadata: {{name: {name}}}\n"
    f"spec: {{containers: [{{name: c, resources: {{limits: {{cpu: {cpu}, memory: 64Mi}}}}}}]}}\n"
    for name, count, cpu in (("small", 5, 1), ("big", 1, 5))
)
ARRIVALS = arrivals_of(read_workloads(TEXT, "m.yaml", "default"), 1)


def test_one_order_is_that_of_the_manifests_or_of_a_seed() -> None:
    assert worst_of(CLUSTER, ARRIVALS, [None]).order == IN_ORDER
    assert worst_of(CLUSTER, ARRIVALS, [3]).order == order_text(3)


def test_the_worst_of_several_orders_is_shown_with_the_refusals_of_all() -> None:
    seeds = [None, 1, 2, 3]
    each = [planned(CLUSTER, ARRIVALS, seed) for seed in seeds]
    worst = worst_of(CLUSTER, ARRIVALS, seeds)
    assert worst.worst_of == tuple(plan.refused_pods for plan in each)
    assert worst.badness == max(plan.badness for plan in each) > each[0].badness
    assert worst.order == next(plan.order for plan in each if plan.badness == worst.badness) != IN_ORDER
