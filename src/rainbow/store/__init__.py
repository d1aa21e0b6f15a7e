"""Truth: one store interface, SQLite and PostgreSQL behind it, migrations."""
