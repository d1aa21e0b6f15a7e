"""Use cases; the only package that combines matching, selection, store, graphs and clock."""
