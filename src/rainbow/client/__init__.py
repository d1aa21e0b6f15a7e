"""The Python SDK, synchronous and asynchronous."""
