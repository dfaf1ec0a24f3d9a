"""A device plugin: offers the devices of an inventory to the kubelet, says which go together, and what containers get.

Source: the device plugin API v1beta1 of the kubelet.
"""
