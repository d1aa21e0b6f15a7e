"""Decide whether a request fits a cluster, where, and why not; pure."""
