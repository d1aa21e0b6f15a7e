"""The process beside a cluster: a pure reactor, a thin loop around it, and backends that drive the manager."""
