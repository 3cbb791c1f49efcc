"""Shapes of samples by kind of data: how long, how large, how many bytes.

Fits to published statistics. Text means come from FineWeb and the Pile at 4.3 bytes a token, COYO
from its own table and from the paper's Figure 2, speech from Libri-Light, video from Panda-70M.
What nobody published is marked `assumed`; every value is a field that can be replaced.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from overlord._src.corpus.parameters import BYTES_PER_TOKEN, Lengths, lengths_of
from overlord._src.simulate.chance import Chance, Reals
from overlord._src.simulate.columns import Columns, Integers, make_columns

JPEG_BYTES_PER_PIXEL = 0.2  # assumed: 0.1 to 0.3
SPEECH_BYTES_PER_SECOND = 16_000  # 16 kHz, 16 bit, halved by FLAC
VIDEO_BYTES_PER_SECOND = 60_000  # Panda-70M: about 0.5 MB per clip of 8.5 s
AUDIO_FRAMES_PER_SECOND = 50  # what an encoder attends over, after its first convolutions
AUDIO_FRAMES_PER_TOKEN = 4  # assumed
VIDEO_FRAMES_PER_SECOND = 2  # assumed sampling rate
VIDEO_FRAME_PATCHES = 256  # 224 x 224 pixels in 14 x 14 patches
VIDEO_PATCHES_PER_TOKEN = 4  # 2 x 2 patches become one token
LONGEST_SPEECH_SECONDS = 4152.0


@dataclass(frozen=True)
class Text:
    """Documents of log-normal length."""

    lengths: Lengths

    def draw(self, chance: Chance, rows: int) -> Columns:
        tokens = text_lengths(chance, self.lengths, rows)
        return make_columns(rows, {"text_tokens": tokens, "bytes": tokens * BYTES_PER_TOKEN})


@dataclass(frozen=True)
class ImageSides:
    """Pixels of pictures: the short side log-normal, the aspect log-normal and bounded."""

    short_mu: float
    short_sigma: float
    least_short: float
    aspect_mean: float  # of ln(width / height)
    aspect_sigma: float
    most_short: float = 10_000.0

    def draw(self, chance: Chance, rows: int) -> tuple[Reals, Reals]:
        """Widths and heights."""
        bounds = log(self.least_short), log(self.most_short)
        short = np.exp(
            chance.normal_within("short", rows, self.short_mu, self.short_sigma, *bounds)
        )
        aspect = chance.normal_within(
            "aspect", rows, self.aspect_mean, self.aspect_sigma, -log(3), log(3)
        )
        long = short * np.exp(np.abs(aspect))
        return np.where(aspect > 0, long, short), np.where(aspect > 0, short, long)


COYO_SIDES = ImageSides(5.82, 0.70, 200.0, 0.14, 0.22)
LAION_SIDES = ImageSides(5.563, 0.687, 32.0, 0.0, 0.32)
PAGE_SIDES = ImageSides(log(1000), 0.25, 400.0, -0.33, 0.1)  # assumed: scanned pages, upright


@dataclass(frozen=True)
class TextAndImages:
    """Text with pictures: 1 + a geometric number of them, each `patch` x `patch` cut."""

    lengths: Lengths
    sides: ImageSides
    patch: int
    more_images: float = 0.0  # chance that another picture follows
    most_images: int = 16
    patches_per_token: int = 1

    def draw(self, chance: Chance, rows: int) -> Columns:
        text = text_lengths(chance, self.lengths, rows)
        images = np.ones(rows, dtype=np.int64)
        if self.more_images:
            followers = np.log(1.0 - chance.uniform("images", rows)) / log(self.more_images)
            images = np.minimum(1 + followers.astype(np.int64), self.most_images)
        width, height = self.sides.draw(chance, int(images.sum()))
        patches = np.ceil(width / self.patch) * np.ceil(height / self.patch)
        owner = np.repeat(np.arange(rows), images)
        total = np.bincount(owner, weights=patches, minlength=rows).astype(np.int64)
        pixels = np.bincount(owner, weights=width * height, minlength=rows)
        return make_columns(
            rows,
            {
                "text_tokens": text,
                "tokens": text + np.maximum(1, total // self.patches_per_token),
                "images": images,
                "image_patches": total,
                "bytes": text * BYTES_PER_TOKEN + pixels * JPEG_BYTES_PER_PIXEL,
            },
        )


@dataclass(frozen=True)
class Speech:
    """Spoken audio in the wild: a log-normal body and a Pareto tail, with its transcript."""

    mu: float = 1.917
    sigma: float = 0.86
    tail_share: float = 0.015
    tail_least: float = 25.0
    tail_exponent: float = 1.6
    words_per_second: float = 2.5  # assumed
    tokens_per_word: float = 1.3  # assumed

    def draw(self, chance: Chance, rows: int) -> Columns:
        body = np.exp(self.mu + self.sigma * chance.normal("seconds", rows))
        spread = (1.0 - chance.uniform("tail", rows)) ** (-1.0 / self.tail_exponent)
        in_tail = chance.uniform("in_tail", rows) < self.tail_share
        seconds = np.where(in_tail, self.tail_least * spread, body)
        seconds = np.clip(seconds, 0.5, LONGEST_SPEECH_SECONDS)
        frames = np.ceil(seconds * AUDIO_FRAMES_PER_SECOND).astype(np.int64)
        words = seconds * self.words_per_second
        text = np.maximum(1, words * self.tokens_per_word).astype(np.int64)
        return make_columns(
            rows,
            {
                "text_tokens": text,
                "tokens": text + np.maximum(1, frames // AUDIO_FRAMES_PER_TOKEN),
                "audio_frames": frames,
                "bytes": seconds * SPEECH_BYTES_PER_SECOND + text * BYTES_PER_TOKEN,
            },
        )


@dataclass(frozen=True)
class VideoClips:
    """Short clips with a caption of 13 to 18 words."""

    mean_seconds: float = 8.5
    sigma: float = 0.9  # assumed
    tokens_per_word: float = 1.3  # assumed

    def draw(self, chance: Chance, rows: int) -> Columns:
        mu = log(self.mean_seconds) - self.sigma**2 / 2
        seconds = np.clip(np.exp(mu + self.sigma * chance.normal("seconds", rows)), 0.5, 600.0)
        frames = np.maximum(1, np.rint(seconds * VIDEO_FRAMES_PER_SECOND)).astype(np.int64)
        words = 13 + np.floor(chance.uniform("words", rows) * 6)
        text = np.rint(words * self.tokens_per_word).astype(np.int64)
        patches = frames * VIDEO_FRAME_PATCHES
        return make_columns(
            rows,
            {
                "text_tokens": text,
                "tokens": text + patches // VIDEO_PATCHES_PER_TOKEN,
                "video_frames": frames,
                "video_patches": patches,
                "bytes": seconds * VIDEO_BYTES_PER_SECOND + text * BYTES_PER_TOKEN,
            },
        )


# Each draws samples of one kind, with everything but their source.
Shape = Text | TextAndImages | Speech | VideoClips
INTERLEAVED_TEXT = lengths_of(816, 0.9)  # OBELICS' mean; sigma assumed
PAGE_TEXT = lengths_of(1200, 0.6)  # assumed: a page of print, read by OCR


def text_lengths(chance: Chance, lengths: Lengths, rows: int) -> Integers:
    """Log-normal numbers of tokens, clipped."""
    values = np.exp(lengths.mu + lengths.sigma * chance.normal("text", rows))
    return np.clip(np.rint(values), lengths.least, lengths.most).astype(np.int64)
