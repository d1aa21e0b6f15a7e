"""Principals, accounts, groups, credential renewal and the audit log."""
