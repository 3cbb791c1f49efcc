"""Short sounds of notes, and captions that name them: tones, chords, melodies, sweeps.

Oscillators count phases in whole numbers and look the sine up in a table, so that samples are the
same on every machine.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from math import pi, sin
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from overlord._src.corpus.chance import Chance

Kind = Literal["tone", "chord", "melody", "sweep"]
Samples = npt.NDArray[np.int16]
RATE = 16_000
NOTES = ("C", "D", "E", "F", "G", "A", "B")
_SEMITONES = (0, 2, 4, 5, 7, 9, 11)
_KINDS: tuple[Kind, ...] = ("tone", "chord", "melody", "sweep")
_TABLE_BITS = 12
_TURN = 1 << 32  # a whole period in phase units
_FADE = RATE // 50  # samples that a note takes to rise and to fall


@dataclass(frozen=True)
class Note:
    """A white key of a piano: C3 to B5."""

    name: str
    octave: int

    def __str__(self) -> str:
        return f"{self.name}{self.octave}"

    @property
    def key(self) -> int:
        """Semitones above C0."""
        return 12 * self.octave + _SEMITONES[NOTES.index(self.name)]

    @property
    def phase_step(self) -> int:
        """Phase units from sample to sample; A4 is 440 Hz."""
        hertz: float = 440.0 * 2.0 ** ((self.key - 57) / 12)
        return round(hertz * _TURN / RATE)


@dataclass(frozen=True)
class Tune:
    """What a clip sounds like."""

    kind: Kind
    notes: tuple[Note, ...]
    length: int  # samples

    def caption(self) -> str:
        """One sentence that names its notes in order."""
        named = [str(note) for note in self.notes]
        if self.kind == "tone":
            return f"a tone of {named[0]}"
        if self.kind == "chord":
            return f"a chord of {' '.join(named)}"
        if self.kind == "melody":
            return f"a melody of {' '.join(named)}"
        way = "rising" if self.notes[1].key > self.notes[0].key else "falling"
        return f"a {way} sweep from {named[0]} to {named[1]}"


def make_tune(chance: Chance, most_seconds: int = 3) -> Tune:
    """Some clip of a half to `most_seconds` seconds."""
    kind = chance.one_of(_KINDS)
    length = RATE * chance.between(5, 10 * most_seconds) // 10
    if kind == "tone":
        return Tune(kind, (_some_note(chance),), length)
    if kind == "sweep":
        low, high = Note(chance.one_of(NOTES), 3), Note(chance.one_of(NOTES), 5)
        return Tune(kind, (low, high) if chance.below(2) else (high, low), length)
    if kind == "chord":
        root, octave = chance.below(len(NOTES)), chance.between(3, 4)
        steps = (0, 2, 4) if chance.below(2) else (0, 2, 4, 6)
        return Tune(kind, tuple(_white_key(octave, root + step) for step in steps), length)
    count = chance.between(3, 6)
    return Tune(kind, tuple(_some_note(chance) for _ in range(count)), length)


def play(tune: Tune) -> Samples:
    """The samples of a tune: mono, 16 bits, RATE a second."""
    if tune.kind == "melody":
        ends = [tune.length * (at + 1) // len(tune.notes) for at in range(len(tune.notes))]
        parts = [
            _voice(np.full(end - begin, note.phase_step, np.int64))
            for note, begin, end in zip(tune.notes, [0, *ends[:-1]], ends, strict=True)
        ]
        mixed = np.concatenate(parts)
    elif tune.kind == "sweep":
        first, last = (note.phase_step for note in tune.notes)
        at = np.arange(tune.length, dtype=np.int64)
        mixed = _voice(first + (last - first) * at // tune.length)
    else:
        voices = [_voice(np.full(tune.length, note.phase_step, np.int64)) for note in tune.notes]
        mixed = sum(voices[1:], voices[0]) // len(voices)
    return mixed.astype(np.int16)


def wav_file(samples: Samples, rate: int = RATE) -> bytes:
    """The samples as a WAV file of 16-bit PCM, mono."""
    data = samples.astype("<i2").tobytes()
    shape = struct.pack("<IHHIIHH", 16, 1, 1, rate, 2 * rate, 2, 16)
    head = b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + shape
    return head + b"data" + struct.pack("<I", len(data)) + data


def tune_words() -> list[str]:
    """Every word that a caption can have; octaves are digits behind a note."""
    plain = ("a", "tone", "of", "chord", "melody", "rising", "falling", "sweep", "from", "to")
    return [*plain, *NOTES]


def _some_note(chance: Chance) -> Note:
    return Note(chance.one_of(NOTES), chance.between(3, 5))


def _white_key(octave: int, step: int) -> Note:
    return Note(NOTES[step % len(NOTES)], octave + step // len(NOTES))


@cache
def _sine() -> npt.NDArray[np.int64]:
    """One period in so many steps; the largest value is 2^14."""
    steps = 1 << _TABLE_BITS
    return np.array([round(16_384 * sin(2 * pi * at / steps)) for at in range(steps)], np.int64)


def _voice(phase_steps: npt.NDArray[np.int64]) -> Any:
    """A note with two overtones that rises fast and dies away, as a string does."""
    phase = np.cumsum(phase_steps) - phase_steps
    shift = 32 - _TABLE_BITS
    table, last = _sine(), (1 << _TABLE_BITS) - 1
    wave = sum(
        table[((phase * overtone) >> shift) & last] * share
        for overtone, share in ((1, 10), (2, 4), (3, 2))
    )
    count = len(phase)
    at = np.arange(count, dtype=np.int64)
    level = np.minimum(np.minimum(at, count - 1 - at), _FADE)
    rest = 1024 - 768 * at // count
    return wave * level // (16 * _FADE) * rest >> 10
