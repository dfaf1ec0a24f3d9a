"""Read the container's request out of CRI messages, and write its pinning into them."""
