"""Network links to the server: messages are lost, duplicated, delayed and reordered; links are partitioned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from rainbow_sched.simulation.fault_rates import FaultRates
from rainbow_sched.simulation.loop import VirtualLoop


@dataclass(slots=True)
class Link:
    """The connection of one peer; each direction can fail separately."""

    loop: VirtualLoop
    rng: Random
    rates: FaultRates
    up: bool = True  # towards the server
    down: bool = True
    cut_until: float = 0.0

    def ask(self, deliver: Callable[[], object]) -> None:
        """Send a message to the server."""
        if self.up:
            self._carry(deliver)

    def answer(self, deliver: Callable[[], object]) -> None:
        """Send a message from the server."""
        if self.down:
            self._carry(deliver)

    def mend(self) -> None:
        """Repair both directions."""
        self.up = self.down = True

    def delay(self) -> float:
        """Return the delay of a message: milliseconds, or sometimes long enough for many others to overtake it."""
        if self.rng.random() < self.rates.slow:
            return self.rng.uniform(0.1, 12.0)
        return self.rng.uniform(0.0005, 0.02)

    def _carry(self, deliver: Callable[[], object]) -> None:
        if self.rng.random() < self.rates.loss:
            return
        self.loop.call_later(self.delay(), deliver)
        if self.rng.random() < self.rates.doubling:
            self.loop.call_later(self.delay() * 3, deliver)
