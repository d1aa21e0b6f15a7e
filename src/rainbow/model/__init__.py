"""Nouns: frozen values without I/O that every other room speaks in."""
