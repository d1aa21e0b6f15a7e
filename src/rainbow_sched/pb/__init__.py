"""Generated from proto/ by tools/generate_protos.py."""
