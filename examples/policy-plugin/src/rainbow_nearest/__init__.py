"""An example policy: the clusters of the job's own region first, then the one with the most room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from rainbow_sched.model.candidate import Candidate, Demand
from rainbow_sched.selection.options import take
from rainbow_sched.selection.policies import Ranked, Ranking


@dataclass(frozen=True, slots=True)
class Nearest:
    """Ranks by the state key `region` that clusters report; the job names its own by option or parameter."""

    region: str = ""
    wants_bids: bool = False

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Nearest:
        """`region`: where the job's data lies."""
        return cls(take("nearest", options, {"region": ""})["region"])

    def rank(self, candidates: Sequence[Candidate], demand: Demand, rng: Random) -> Ranking:
        """Same region first, then by free slots, then by name."""
        here = self.region or str(demand.parameters.get("region", ""))

        def far(candidate: Candidate) -> bool:
            return not here or candidate.state.get("region") != here

        order = sorted(candidates, key=lambda c: (far(c), -c.slots_now, c.name))
        return Ranking(
            [
                Ranked(
                    c.name,
                    float(c.slots_now),
                    f"{'another region' if far(c) else f'in {here}'}, {c.slots_now} slots free",
                )
                for c in order
            ],
            {},
        )
