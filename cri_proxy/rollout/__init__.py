"""Roll a ConfigMap out by the cluster: the node's group from its label, and canary nodes before the others."""
