"""Run scenarios through the real interceptor and coordinator, on the in-memory runtime."""
