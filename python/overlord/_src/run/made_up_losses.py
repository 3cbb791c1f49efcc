"""Losses for a run without a trainer: a power law per source, or a file of losses.

They let `overlord run` show a mixture that follows losses. A loss falls with what was read of its
source: `floor + height * (1 + tokens / step_tokens) ** -slope`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from overlord._src.config.refusals import unknown_name
from overlord._src.errors import ConfigError, refused

POWER = "power"
FORM = "power, power:SOURCE=HEIGHT/SLOPE/FLOOR,..., or a file of losses"


@dataclass(frozen=True)
class Curve:
    """A loss curve: where it starts above its floor, how fast it falls, where it ends."""

    height: float
    slope: float
    floor: float

    def at(self, steps_read: float) -> float:
        """The loss after so many steps' worth of tokens of the source."""
        return self.floor + self.height * float((1.0 + steps_read) ** -self.slope)


class PowerLosses:
    """A curve per source; sources that are not named get curves that differ by their number."""

    def __init__(self, sources: Sequence[str], given: Mapping[str, Curve]) -> None:
        spread = max(1, len(sources) - 1)
        self.curves = {
            name: given.get(name, Curve(6.0, 0.1 + 0.5 * number / spread, 1.5))
            for number, name in enumerate(sources)
        }

    def mean_loss(self, source: str, step: int, tokens: float) -> float:
        """By the source's curve; the step does not matter."""
        return self.curves[source].at(tokens)


class LossFile:
    """Losses by step: lines like `{"step": 12, "losses": {"web": 2.31, "code": 1.87}}`.

    Between two lines the earlier one holds, before the first line the first.
    """

    def __init__(self, path: Path, sources: Sequence[str]) -> None:
        self._rows: list[tuple[int, dict[str, float]]] = []
        try:
            lines = path.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise _refused(str(path), f"cannot be read: {error}") from None
        for number, line in enumerate(lines, 1):
            if line.strip():
                self._rows.append(_row_of(line, f"{path}, line {number}", sources))
        if not self._rows:
            raise _refused(str(path), "has no losses")
        self._rows.sort(key=lambda row: row[0])
        first = self._rows[0][1]
        missing = [name for name in sources if name not in first]
        if missing:
            raise _refused(str(path), f"its first step has no loss of source {missing[0]}")

    def mean_loss(self, source: str, step: int, tokens: float) -> float:
        """The newest at the step; what was read does not matter."""
        loss = self._rows[0][1][source]
        for at, losses in self._rows:
            if at > step:
                break
            loss = losses.get(source, loss)
        return loss


# Each says the mean loss of a source at a step, when so many steps' worth of its tokens were read.
LossModel = PowerLosses | LossFile


def parse_losses(text: str, sources: Sequence[str]) -> LossModel:
    """What `--losses` means for these sources."""
    kind, colon, rest = text.partition(":")
    if kind != POWER:
        return LossFile(Path(text), sources)
    given: dict[str, Curve] = {}
    for item in rest.split(",") if colon else []:
        name, _, numbers = item.partition("=")
        if name not in sources:
            raise unknown_name(("--losses",), "no such source", name, sources)
        parts = numbers.split("/")
        try:
            height, slope, floor = (float(part) for part in parts)
        except ValueError:
            raise _refused(item, "needs three numbers") from None
        if not (0 <= height < 1e6 and 0 <= slope <= 10 and -1e6 < floor < 1e6):
            raise _refused(item, "height from 0, slope from 0 to 10, floor any number") from None
        given[name] = Curve(height, slope, floor)
    return PowerLosses(sources, given)


def _row_of(line: str, where: str, sources: Sequence[str]) -> tuple[int, dict[str, float]]:
    try:
        row = json.loads(line)
        step, losses = int(row["step"]), dict(row["losses"])
        found = {str(name): float(loss) for name, loss in losses.items()}
    except (ValueError, TypeError, KeyError) as error:
        raise _refused(where, f"is not a step with losses: {error}") from None
    unknown = [name for name in found if name not in sources]
    if unknown:
        known = ", ".join(sources)
        raise _refused(where, f"no such source: {unknown[0]}", known)
    return step, found


def _refused(value: str, what: str, allowed: str = FORM) -> ConfigError:
    return refused(("--losses",), what, value, allowed)
