"""Durable state: one store interface, SQLite and PostgreSQL behind it, migrations."""

from rainbow_sched.store.base import Store, Tx
from rainbow_sched.store.factory import open_store

__all__ = ["Store", "Tx", "open_store"]
