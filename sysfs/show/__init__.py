"""A machine as text, JSON or a picture."""
