"""Wires between the server and everybody else: messages are lost, doubled, late and out of order; wires are cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from rainbow_sched.simulation.fault_rates import Weather
from rainbow_sched.simulation.loop import VirtualLoop


@dataclass(slots=True)
class Wire:
    """One peer's connection; each direction can be cut by itself."""

    loop: VirtualLoop
    rng: Random
    weather: Weather
    up: bool = True  # towards the server
    down: bool = True
    cut_until: float = 0.0

    def ask(self, deliver: Callable[[], None]) -> None:
        """Carry something to the server."""
        if self.up:
            self._carry(deliver)

    def answer(self, deliver: Callable[[], None]) -> None:
        """Carry something from the server."""
        if self.down:
            self._carry(deliver)

    def mend(self) -> None:
        """Both directions work again."""
        self.up = self.down = True

    def delay(self) -> float:
        """How long one message takes: milliseconds, or now and then long enough to be overtaken by many others."""
        if self.rng.random() < self.weather.slow:
            return self.rng.uniform(0.1, 12.0)
        return self.rng.uniform(0.0005, 0.02)

    def _carry(self, deliver: Callable[[], None]) -> None:
        if self.rng.random() < self.weather.loss:
            return
        self.loop.call_later(self.delay(), deliver)
        if self.rng.random() < self.weather.doubling:
            self.loop.call_later(self.delay() * 3, deliver)
