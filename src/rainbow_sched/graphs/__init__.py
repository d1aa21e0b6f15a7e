"""Graph backends (a plugin point) and the file formats of cluster graphs."""
