"""One suite for every graph backend of the visible table; a backend that does not load is named in the skip."""

from __future__ import annotations

import pytest

from rainbow_sched.graphs.backend import BACKENDS, GraphBackend, open_backend
from rainbow_sched.model.errors import Unsupported


@pytest.fixture(params=sorted(BACKENDS))
def backend(request: pytest.FixtureRequest) -> GraphBackend:
    """A new, empty backend of each kind."""
    try:
        return open_backend(request.param)
    except Unsupported as error:
        pytest.skip(f"SKIPPED BACKEND {request.param}: {error}")
