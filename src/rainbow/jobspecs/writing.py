"""Requests written back as jobspecs: `to_nextgen`, `to_flux`, and `as_flux` with what Flux cannot say."""

from rainbow.jobspecs.flux_writing import Written, as_flux, to_flux
from rainbow.jobspecs.nextgen_writing import as_nextgen, to_nextgen

__all__ = ["Written", "as_flux", "as_nextgen", "to_flux", "to_nextgen"]
