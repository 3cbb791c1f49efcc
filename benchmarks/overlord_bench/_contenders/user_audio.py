"""What one writes today: soundfile and NumPy, torch, librosa or transformers in a DataLoader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from overlord_bench._contenders.audio_files import names
from overlord_bench._contenders.batches_per_second import measure_dataloader

RATE, SIZE, HOP, MELS = 16_000, 400, 160, 80


def mel_filters() -> Any:
    """Slaney's triangles of area one, MELS x bins."""

    def to_hz(mel: Any) -> Any:
        return np.where(
            mel < 15, mel * 200 / 3, 1000 * np.exp(np.log(6.4) / 27 * (np.maximum(mel, 15) - 15))
        )

    edges = to_hz(np.linspace(0, 15 + np.log(RATE / 2000) / (np.log(6.4) / 27), MELS + 2))
    hz = np.arange(SIZE // 2 + 1) * RATE / SIZE
    up = (hz - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - hz) / (edges[2:] - edges[1:-1])[:, None]
    area = 2 / (edges[2:] - edges[:-2])[:, None]
    return (np.maximum(0, np.minimum(up, down)) * area).astype(np.float32)


def read_mono(name: str) -> Any:
    """float32 at 16 kHz; soxr where the rate differs, which is the fastest in Python."""
    import soundfile  # type: ignore[import-not-found,unused-ignore]

    samples, rate = soundfile.read(name, dtype="float32")
    if samples.ndim == 2:
        samples = samples.mean(axis=1)
    if rate != RATE:
        import soxr  # type: ignore[import-not-found,unused-ignore]

        samples = soxr.resample(samples, rate, RATE, quality="HQ")
    return samples


def squeezed(mel: Any) -> Any:
    """Logarithm and range of Whisper's definition."""
    log = np.log10(np.maximum(mel, 1e-10))
    return (np.maximum(log, log.max() - 8) + 4) / 4


def with_numpy() -> Callable[[str], Any]:
    """A batched rfft over strided windows."""
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(SIZE) / SIZE)).astype(np.float32)
    filters = mel_filters()

    def spectrogram(name: str) -> Any:
        padded = np.pad(read_mono(name), SIZE // 2, mode="reflect")
        frames = np.lib.stride_tricks.sliding_window_view(padded, SIZE)[::HOP][:-1]
        bins = np.fft.rfft(frames * window, axis=1)
        return squeezed(filters @ (bins.real**2 + bins.imag**2).T)

    return spectrogram


def with_torch() -> Callable[[str], Any]:
    """torch.stft, as the model's own code has it."""
    import torch

    torch.set_num_threads(1)
    window, filters = torch.hann_window(SIZE), torch.from_numpy(mel_filters())

    def spectrogram(name: str) -> Any:
        samples = torch.from_numpy(read_mono(name))
        bins = torch.stft(samples, SIZE, HOP, window=window, return_complex=True)[:, :-1]
        log = (filters @ bins.abs().square()).clamp_(min=1e-10).log10()
        return (torch.maximum(log, log.max() - 8) + 4) / 4

    return spectrogram


def with_librosa() -> Callable[[str], Any]:
    """librosa's melspectrogram."""
    import librosa  # type: ignore[import-not-found,unused-ignore]

    def spectrogram(name: str) -> Any:
        mel = librosa.feature.melspectrogram(
            y=read_mono(name), sr=RATE, n_fft=SIZE, hop_length=HOP, n_mels=MELS, pad_mode="reflect"
        )
        return squeezed(mel[:, :-1])

    return spectrogram


def with_transformers() -> Callable[[str], Any]:
    """The model's feature extractor, without padding to 30 s."""
    from transformers import (  # type: ignore[import-not-found,unused-ignore]
        WhisperFeatureExtractor,
    )

    extractor = WhisperFeatureExtractor(feature_size=MELS)

    def spectrogram(name: str) -> Any:
        samples = read_mono(name)
        given = extractor(samples, sampling_rate=RATE, padding=False, return_tensors="np")
        return given.input_features[0]

    return spectrogram


WAYS = {
    "numpy": with_numpy,
    "torch": with_torch,
    "librosa": with_librosa,
    "transformers": with_transformers,
}


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Files a second."""
    return measure_dataloader(WAYS[work["way"]], names(work), work, prefetch=4)
