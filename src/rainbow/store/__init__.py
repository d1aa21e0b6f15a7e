"""Truth: one store interface, SQLite and PostgreSQL behind it, migrations."""

from rainbow.store.base import Store, Tx
from rainbow.store.opening import open_store

__all__ = ["Store", "Tx", "open_store"]
