"""Dialects: pure text in, one Request out."""
