"""What the kubelet is at its next start, by its own rules: why it would end, and the edits after which it does not."""
