"""Who holds what, and what the runtime has confirmed."""
