"""Tell the cluster about this node, from a process of its own: the daemon has no access to the cluster."""
