"""The suite of all backends, on the smallest batch system."""

from tests.contract.backends import test_backends
from tests.contract.backends.test_backends import *  # noqa: F403 - the tests themselves are what is wanted

assert test_backends
