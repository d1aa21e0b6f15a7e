"""Random numbers for one decision: the same seed gives the same numbers on every machine."""

from __future__ import annotations

from random import Random

_WORD = (1 << 64) - 1


class DecisionRandom(Random):
    """`Random` on SplitMix64: one word of state instead of 624, so that seeding is cheap."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)

    def seed(self, a: object = 0, version: int = 2) -> None:
        if not isinstance(a, int):
            raise TypeError("the seed of a decision must be an integer")
        self._state = a & _WORD
        self.gauss_next = None  # the second number of a pair made by `gauss`

    def random(self) -> float:
        """Return a float in [0, 1)."""
        return (self._word() >> 11) * 2.0**-53

    def getrandbits(self, k: int, /) -> int:
        if k < 0:
            raise ValueError("number of bits must be non-negative")
        bits = 0
        for _ in range(-(-k // 64)):
            bits = bits << 64 | self._word()
        return bits >> (-k % 64)

    def getstate(self) -> tuple[int, ...]:
        return (self._state,)

    def setstate(self, state: tuple[int, ...]) -> None:
        self.seed(*state)

    def _word(self) -> int:
        word = self._state = (self._state + 0x9E3779B97F4A7C15) & _WORD
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
        return word ^ (word >> 31)
