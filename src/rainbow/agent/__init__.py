"""The edge outward: a pure reactor and a thin loop beside a cluster; backends drive its manager."""
