"""The scheduler extender: kube-scheduler asks it which nodes suit a pod's GPUs, and how well."""
