"""Scenario files: their values, and the parser that builds these from YAML."""
