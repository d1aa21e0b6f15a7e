"""Read and write JGF, the JSON Graph Format."""
