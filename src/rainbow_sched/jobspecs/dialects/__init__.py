"""Readers and writers of the jobspec dialects."""
