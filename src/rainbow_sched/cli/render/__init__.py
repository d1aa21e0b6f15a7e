"""Text for people and JSON for programs, from plain rows."""
