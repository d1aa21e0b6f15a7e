"""Submission: from a submitted job to a stored one, with many jobs in one write."""
