"""Trying the product on real things: a private containerd, pods as a kubelet words them, the kernel's answer.

``python -m cri_proxy.tryout`` is ``make run``; benchmarks, end-to-end tests and the emulated machines use the parts.
"""
