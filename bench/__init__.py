"""Measurements, one module per subject; each prints ratios within one run."""
