"""Numbers of Flux's C library."""

FLUX_RPC_STREAMING = 4
