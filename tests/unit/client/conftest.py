"""A fake server and settings of a client."""

import pytest

from rainbow_sched.client.settings import ClientSettings, addresses
from tests.support.fake_server import FakeServer, running


@pytest.fixture
def server():
    with running(FakeServer()) as fake:
        yield fake


@pytest.fixture
def settings(server):
    return ClientSettings(servers=addresses(server.address), token="a-token")
