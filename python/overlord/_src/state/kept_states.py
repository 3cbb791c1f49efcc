"""States of places where a rank has stood: of batches, and of the last finished steps."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from overlord._src.native import core
from overlord._src.state import saved_state as states
from overlord._src.state.keys import StreamKeys

STEPS_KEPT = 16  # finished steps whose states a loader can still give


@dataclass(frozen=True)
class StateMaker:
    """Makes the state dicts of one rank on one mesh. Holds no engine: batches hold it."""

    job: str
    layout: str  # what a state inside a step is bound to
    timeout_s: float  # for reports that the state needs
    keys: StreamKeys

    def state_dict(self, place: core.Place) -> dict[str, Any]:
        """The state dict of a place."""
        blob = core.bound_state(place.state(self.timeout_s), self.layout)
        return self.keys.added_to(states.build_state(blob, core.describe_state(blob), self.job))


class KeptStates:
    """The places after the last finished steps of a rank."""

    def __init__(self) -> None:
        self._places: deque[tuple[core.Place, StateMaker]] = deque(maxlen=STEPS_KEPT)

    def note(self, place: core.Place, maker: StateMaker) -> None:
        """Keep a place, if a step ends there."""
        if place.microbatch == 0 and place.next_step > 0:
            self._places.append((place, maker))

    def forget(self) -> None:
        """The rank goes elsewhere."""
        self._places.clear()

    def state_dict(self, step: int) -> dict[str, Any]:
        """The state after this step, if it is kept; otherwise an error that says which are."""
        for place, maker in self._places:
            if place.next_step == step + 1:
                return maker.state_dict(place)
        kept = [place.next_step - 1 for place, _ in self._places]
        there = f"now {kept[0]} to {kept[-1]}" if kept else "and none has been finished here yet"
        raise core.OutOfRangeError(
            f"no state after step {step}: a loader keeps those after its last {STEPS_KEPT} "
            f"finished steps, {there}; `batch.state` is the state of a batch that is held"
        )
