"""Durable state: one row per grant in SQLite."""
