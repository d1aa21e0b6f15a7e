"""The commands, one file per noun, and how they print."""
