"""What agents say and are told: Sync, offers, reports, presence."""
