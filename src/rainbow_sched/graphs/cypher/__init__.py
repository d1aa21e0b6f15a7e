"""Graph backend that keeps graphs in a property-graph database."""
