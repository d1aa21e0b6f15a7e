"""Real servers on both databases."""

from tests.support.server_fixtures import postgres, server, server_on_each

__all__ = ["postgres", "server", "server_on_each"]
