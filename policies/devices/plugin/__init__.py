"""The devices of an inventory as a device plugin offers them to the kubelet: ids, the preferred set, variables."""
