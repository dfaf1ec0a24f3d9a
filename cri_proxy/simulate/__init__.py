"""Scenarios played through the real interceptor and coordinator on the in-memory runtime."""
