"""Periodic work, retention, and recovery after a restore."""
