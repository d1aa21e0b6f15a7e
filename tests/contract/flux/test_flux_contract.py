"""The suite of all backends, on the stand-in for Flux, and on a real Flux when there is one."""

from tests.contract.backends import test_backends
from tests.contract.backends.test_backends import *  # noqa: F403 - the tests themselves are what is wanted

# Whether a small job may pass a large one is for the instance's queue policy to decide.
del test_a_small_job_passes_a_large_one_that_has_to_wait  # noqa: F821 - comes with the line above
assert test_backends
