"""Rainbow: one door to many clusters."""

__version__ = "0.1.0"
