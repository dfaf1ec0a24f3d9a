"""Show a machine as text, JSON or SVG."""
