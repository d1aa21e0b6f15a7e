"""Run jobs through a Flux instance."""
