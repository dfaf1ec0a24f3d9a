"""The built-in policies, one module each; they do not import each other."""
