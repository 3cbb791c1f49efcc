"""Bytes on each hop of a step, and how many loaders keep up with it."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from overlord._src.simulate.clients import Clients
from overlord._src.simulate.columns import Columns

FIRST_STAGE_TOKEN_BYTES = 8  # token and position
LAST_STAGE_TOKEN_BYTES = 8  # target and loss weight
PIECE_BOUNDARY_BYTES = 8  # where a document begins, real and padded, to every rank
PATCH_BYTES = 14 * 14 * 3  # pixels as uint8
AUDIO_FRAME_BYTES = 640  # 20 ms at 16 kHz, 16 bit
EMBEDDING_BYTES = 2  # bf16


@dataclass(frozen=True)
class LoaderConstants:
    """What preparing samples takes. Ratios of text, image and audio are the paper's; assumed."""

    text_token_s: float = 2e-7  # five million tokens a second and core
    patch_s: float = 75 * 2e-7
    audio_frame_s: float = 300 * 2e-7
    busy: float = 0.8  # share of its time that a worker should work
    workers_per_loader: int = 8


LOADERS = LoaderConstants()


@dataclass
class Tally:
    """Sums over the steps of a simulation."""

    steps: int = 0
    tokens: int = 0
    pieces: int = 0
    stored_bytes: int = 0
    media_bytes: int = 0
    samples: Any = None  # per source
    work_s: Any = None  # per source: seconds of one worker

    def add(self, columns: Columns, sources: int, constants: LoaderConstants = LOADERS) -> None:
        """Count a step."""
        patches = columns.image_patches + columns.video_patches
        seconds = (
            columns.text_tokens * constants.text_token_s
            + patches * constants.patch_s
            + columns.audio_frames * constants.audio_frame_s
        )
        if self.samples is None:
            self.samples, self.work_s = np.zeros(sources, dtype=np.int64), np.zeros(sources)
        self.steps += 1
        self.tokens += int(columns.tokens.sum())
        self.pieces += len(columns)
        self.stored_bytes += int(columns.bytes.sum())
        self.media_bytes += int(
            patches.sum() * PATCH_BYTES + columns.audio_frames.sum() * AUDIO_FRAME_BYTES
        )
        self.samples += np.bincount(columns.source, minlength=sources)
        self.work_s += np.bincount(columns.source, weights=seconds, minlength=sources)


def hop_bytes(tally: Tally, clients: Clients) -> dict[str, float]:
    """Mean bytes of a step on each hop, over the whole job.

    Media travels as stored up to the constructor and is decoded there. Context-parallel ranks get
    slices, tensor-parallel ranks the same bytes each unless the trainer broadcasts; stages in the
    middle get boundaries only.
    """
    mesh, steps = clients.mesh, max(tally.steps, 1)
    tp = clients.shards // mesh.size("cp")
    ends = tally.tokens * (FIRST_STAGE_TOKEN_BYTES + LAST_STAGE_TOKEN_BYTES)
    boundaries = tally.pieces * PIECE_BOUNDARY_BYTES * clients.group_ranks
    read_again = mesh.size("cp") * mesh.size("pp")
    return {
        "storage_to_loader": tally.stored_bytes / steps,
        "loader_to_constructor": tally.stored_bytes / steps,
        "constructor_to_client": (ends * tp + tally.media_bytes + boundaries) / steps,
        "constructor_to_client_with_broadcast": (ends + tally.media_bytes + boundaries) / steps,
        "colocated_storage_to_loader": tally.stored_bytes * read_again / steps,
    }


def fetching_ranks(clients: Clients, broadcast: bool = False) -> int:
    """Ranks that ask for tokens or targets: those of the first and the last stage."""
    stages = clients.stages
    ends = min(stages, 2)
    tp = clients.shards // clients.mesh.size("cp")
    return clients.world // stages * ends // (tp if broadcast else 1)


def loaders_needed(
    tally: Tally, step_s: float, constants: LoaderConstants = LOADERS
) -> dict[str, Any]:
    """Loaders and workers that prepare a step while one is trained, one source per loader."""
    steps = max(tally.steps, 1)
    per_source = tally.work_s / steps / max(step_s, 1e-9) / constants.busy
    workers = [max(1, ceil(value - 1e-9)) for value in per_source.tolist()]
    loaders = [ceil(count / constants.workers_per_loader) for count in workers]
    heaviest = int(np.argmax(workers)) if workers else 0
    return {
        "loaders": sum(loaders),
        "workers": sum(workers),
        "heaviest_source": heaviest,
        "heaviest_source_workers": workers[heaviest] if workers else 0,
        "busy_workers": float(per_source.sum() * constants.busy),
        "assumed": {
            "text_token_s": constants.text_token_s,
            "patch_s": constants.patch_s,
            "audio_frame_s": constants.audio_frame_s,
            "workers_per_loader": constants.workers_per_loader,
        },
    }
