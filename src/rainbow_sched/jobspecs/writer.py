"""Requests written back as jobspecs: `to_nextgen`, `to_flux`, and `as_flux` with what Flux cannot say."""

from rainbow_sched.jobspecs.dialects.flux_writer import Written, as_flux, to_flux
from rainbow_sched.jobspecs.dialects.nextgen_writer import as_nextgen, to_nextgen

__all__ = ["Written", "as_flux", "as_nextgen", "to_flux", "to_nextgen"]
