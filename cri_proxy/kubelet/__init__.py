"""The kubelet's pod resources API: which devices a pod has."""
