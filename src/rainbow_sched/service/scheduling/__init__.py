"""Decisions: build the question, ask for bids, retry pending jobs."""
