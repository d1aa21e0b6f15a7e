"""Which addresses only this machine can reach."""

import pytest

from rainbow_sched.client.settings import is_loopback


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "127.8.9.10", "::1"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "localhost.example", "notlocalhost", "0.0.0.0", "::", "127.0.0.1.nip.io"])
def test_not_loopback(host: str) -> None:
    assert not is_loopback(host)
