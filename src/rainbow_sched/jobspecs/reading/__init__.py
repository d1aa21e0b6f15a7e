"""Read JSON and YAML safely, and the counts, durations and arrays in them."""
