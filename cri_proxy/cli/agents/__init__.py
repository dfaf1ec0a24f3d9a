"""Commands that serve beside the daemon, each as a process of its own, until they are stopped."""
