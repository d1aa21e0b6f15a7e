"""The verbs of a transaction, one module per kind of thing."""
