"""Read JSON and YAML of any origin safely into plain data; pure."""
