"""CRI messages to values and back."""
