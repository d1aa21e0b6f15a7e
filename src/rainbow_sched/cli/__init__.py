"""The commands, one module per noun, and how they print."""
