"""The exact fit of one request on one cluster, and the placement of its slots."""
