"""Choose the cheapest set of devices and CPUs by the costs between them: the cost graph."""

from policies.lazy_import import door

__getattr__ = door(__name__)
