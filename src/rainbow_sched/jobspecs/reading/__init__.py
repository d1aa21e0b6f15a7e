"""Safe reading of JSON and YAML, and of the small values inside."""
