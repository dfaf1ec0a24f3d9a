"""Choose the cheapest set of devices and CPUs by the costs between them: the cost graph."""
