"""The real service and the real agent in virtual time, with injected faults."""
