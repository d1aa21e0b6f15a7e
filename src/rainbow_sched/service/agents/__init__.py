"""Agents: Sync, offers, reports, presence."""
