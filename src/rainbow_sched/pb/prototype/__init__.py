"""Generated; see the folder above."""
