"""Choose the cheapest set of devices and CPUs by the costs between them: the cost graph."""

from policies.lazy_import import door

__getattr__ = door(
    __name__,
    """
    catalog: DeviceCatalog
    choice: CostTerm, SelectMethod, SelectOptions, Selection, cheapest_of, select, select_in
    derive: DeviceCosts, MachineCosts
    derive_links: costs_of_links, nodes_of_gpus
    graph: CostGraph, Missing, build_graph, layered
    graphviz: dot
    inventory: Inventory, NO_DEVICES
    model: CPU_TYPE, CostError, CostLine, CostListing, CostValue, PCI_TYPE, SYSTEM_TYPES, cpu_names, name_order
    model: type_of
    request: CannotSelect, SetRequest
    table: CostTable, Group, Normalize, compile_costs
    text: cost_line, cost_text, names_of, ranges_of, unique_names, with_colons
    """,
)
