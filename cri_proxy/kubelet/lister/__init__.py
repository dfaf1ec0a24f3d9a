"""The pod resources API on a socket of its own: what the kubelet answers, with what the node has granted itself.

Exporters and monitors ask the kubelet who has which CPUs, memory and devices; beside cri-proxy its managers have given
nothing, so that it would tell them of a node without owners.
"""
