"""A device plugin: offers an inventory's devices to the kubelet, prefers those that go together, and allocates them.

Source: the device plugin API v1beta1 of the kubelet.
"""
