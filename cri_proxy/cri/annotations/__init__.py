"""Read the annotations of a pod."""
