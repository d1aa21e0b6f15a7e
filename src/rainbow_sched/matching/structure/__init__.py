"""A cluster's graph with equal subtrees shared, and the facts of its subsystems."""
