"""Use cases: the only room that joins scheduler, store, graphs and clock."""
