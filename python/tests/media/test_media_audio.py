"""Sounds: headers, decoding, resampling and log-mel against soundfile, SciPy and plain NumPy."""

from __future__ import annotations

import functools
import io
import struct
import threading
from typing import Any

import numpy as np
import pytest

from overlord import _core as media

# After ours: both bring a libsndfile of one name, and the first that is loaded serves both.
soundfile = pytest.importorskip("soundfile")


def voice(frames: int, channels: int = 1, rate: int = 16_000, seed: int = 0) -> np.ndarray:
    """Harmonics of a wandering pitch, and a little noise."""
    drawn = np.random.default_rng(seed)
    time = np.arange(frames) / rate
    phase = 2 * np.pi * np.cumsum(150 + 50 * np.sin(3 * time)) / rate
    sound = sum(np.sin(k * phase) / k for k in range(1, 12)) * (0.2 + 0.1 * np.sin(9 * time))
    planes = [sound * (1 - 0.3 * c) + drawn.normal(0, 0.01, frames) for c in range(channels)]
    return np.clip(np.stack(planes, 1), -0.99, 0.99)


def encode(samples: np.ndarray, rate: int, format: str, subtype: str) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, samples, rate, subtype, format=format)
    return out.getvalue()


FILES = {
    "wav-8k-mono": (12_345, 1, 8_000, "WAV", "PCM_16"),
    "wav-24": (5_001, 2, 48_000, "WAV", "PCM_24"),
    "wav-u8": (5_001, 1, 11_025, "WAV", "PCM_U8"),
    "wav-32": (777, 3, 16_000, "WAV", "PCM_32"),
    "wav-float": (5_001, 2, 22_050, "WAV", "FLOAT"),
    "wav-double": (5_001, 1, 22_050, "WAV", "DOUBLE"),
    "wav-ulaw": (5_001, 1, 8_000, "WAV", "ULAW"),
    "wav-alaw": (5_001, 1, 8_000, "WAV", "ALAW"),
    "wavex": (5_001, 6, 48_000, "WAVEX", "PCM_16"),
    "flac-16k": (160_000, 1, 16_000, "FLAC", "PCM_16"),
    "flac-44k-stereo": (44_107, 2, 44_100, "FLAC", "PCM_16"),
    "flac-24": (9_999, 2, 96_000, "FLAC", "PCM_24"),
    "flac-one-sample": (1, 1, 16_000, "FLAC", "PCM_16"),
    "ogg-vorbis": (44_107, 2, 44_100, "OGG", "VORBIS"),
    "ogg-opus": (48_000, 1, 48_000, "OGG", "OPUS"),
    "mp3": (16_000, 1, 16_000, "MP3", "MPEG_LAYER_III"),
}


@functools.cache
def file_of(name: str) -> bytes:
    frames, channels, rate, format, subtype = FILES[name]
    return encode(voice(frames, channels, rate), rate, format, subtype)


@pytest.mark.parametrize("name", FILES)
def test_header_and_samples_are_those_of_soundfile(name: str) -> None:
    data = file_of(name)
    header, told = media.probe_audio(data), soundfile.info(io.BytesIO(data))
    assert (header["channels"], header["sample_rate"]) == (told.channels, told.samplerate)
    assert header["frames"] == told.frames
    assert header["milliseconds"] == told.frames * 1000 // told.samplerate
    assert header["format"] == name.split("-")[0].removesuffix("ex")
    ours = media.decode_audio(data)
    theirs, _ = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    assert ours.dtype == np.float32
    if header["exact"]:
        assert np.array_equal(ours, theirs)
    else:  # another version of the library may compute lossy formats otherwise
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max() < 1e-4


def test_int16_gives_the_integers_of_the_file() -> None:
    samples = np.random.default_rng(1).integers(-32768, 32768, (4001, 2)).astype(np.int16)
    data = encode(samples, 16_000, "FLAC", "PCM_16")
    ours, geometry = media.run_audio_chain(data, "pcm16")
    assert geometry["dtype"] == "int16"
    assert np.array_equal(ours, samples)


def log_mel(samples: np.ndarray, mels: int) -> np.ndarray:
    """Whisper's definition in double precision."""

    def to_hz(mel: np.ndarray) -> np.ndarray:
        above = 1000 * np.exp(np.log(6.4) / 27 * (np.maximum(mel, 15) - 15))
        return np.where(mel < 15, mel * 200 / 3, above)

    edges = to_hz(np.linspace(0, 15 + np.log(8) / (np.log(6.4) / 27), mels + 2))
    hz = np.arange(201) * 40.0
    up = (hz - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - hz) / (edges[2:] - edges[1:-1])[:, None]
    filters = np.maximum(0, np.minimum(up, down)) * 2 / (edges[2:] - edges[:-2])[:, None]
    padded = np.pad(samples.astype(np.float64), 200, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, 400)[::160][: len(samples) // 160]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    power = np.abs(np.fft.rfft(frames * window, axis=1)) ** 2
    log = np.log10(np.maximum(filters @ power.T, 1e-10))
    return (np.maximum(log, log.max() - 8) + 4) / 4


@pytest.mark.parametrize("mels", [80, 128])
@pytest.mark.parametrize("frames", [160, 401, 16_000, 16_001, 55_555])
def test_log_mel_is_the_definition(mels: int, frames: int) -> None:
    samples = voice(frames)
    data = encode(samples, 16_000, "WAV", "FLOAT")
    ours, geometry = media.run_audio_chain(data, f"log_mel mels={mels}")
    assert ours.shape == (mels, frames // 160) == (geometry["mels"], geometry["frames"])
    assert np.abs(ours - log_mel(samples[:, 0], mels)).max() < 1e-4


def test_log_mel_of_silence_and_of_the_loudest() -> None:
    silent = encode(np.zeros(16_000), 16_000, "FLAC", "PCM_16")
    assert np.allclose(media.run_audio_chain(silent, "log_mel")[0], -1.5, atol=1e-6)
    square = np.where(np.arange(16_000) // 8 % 2, 0.9999, -1.0)
    data = encode(square, 16_000, "WAV", "FLOAT")
    ours, _ = media.run_audio_chain(data, "log_mel")
    assert np.abs(ours - log_mel(square.astype(np.float32), 80)).max() < 2e-4


@pytest.mark.parametrize("mels", [80, 128])
def test_padded_log_mel_is_that_of_transformers(mels: int) -> None:
    transformers = pytest.importorskip("transformers")
    samples = voice(70_001)[:, 0].astype(np.float32)
    extractor = transformers.WhisperFeatureExtractor(feature_size=mels)
    theirs = extractor(
        samples, sampling_rate=16_000, return_tensors="np", return_attention_mask=True
    )
    data = encode(samples, 16_000, "WAV", "FLOAT")
    ours, geometry = media.run_audio_chain(data, f"fit samples=480000; log_mel mels={mels}")
    assert np.abs(ours - theirs.input_features[0]).max() < 1e-4
    assert geometry["tokens"] == 1500
    assert geometry["real_frames"] == int(theirs.attention_mask.sum())


def band_limited(rate: int, seconds: float = 1.0) -> np.ndarray:
    time = np.arange(int(rate * seconds)) / rate
    drawn = np.random.default_rng(3)
    tones = [(hz, drawn.uniform(0, 6)) for hz in (60, 440, 997, 1810, 2350)]
    return sum(0.1 * np.sin(2 * np.pi * hz * time + phase) for hz, phase in tones)


TOLERANCE = {"fast": 2e-3, "standard": 2e-4, "high": 1e-5}


@pytest.mark.parametrize("quality", TOLERANCE)
@pytest.mark.parametrize("rate", [8_000, 11_025, 22_050, 32_000, 44_100, 48_000, 96_000])
def test_resampling_keeps_what_lies_in_the_band(rate: int, quality: str) -> None:
    data = encode(band_limited(rate), rate, "WAV", "FLOAT")
    ours, _ = media.run_audio_chain(data, f"resample rate=16000 quality={quality}")
    exact = band_limited(16_000)
    assert ours.shape == (16_000, 1)
    assert np.abs(ours[600:-600, 0] - exact[600:-600]).max() < TOLERANCE[quality]


@pytest.mark.parametrize("rate", [8_000, 44_100, 48_000])
def test_resampling_is_close_to_scipy_and_soxr(rate: int) -> None:
    signal = pytest.importorskip("scipy.signal")
    samples = band_limited(rate)
    data = encode(samples, rate, "WAV", "FLOAT")
    ours, _ = media.run_audio_chain(data, "resample rate=16000 quality=high")
    common = np.gcd(rate, 16_000)
    theirs = signal.resample_poly(
        samples, 16_000 // common, rate // common, window=("kaiser", 12.0)
    )
    assert ours.shape[0] == theirs.shape[0]
    # SciPy's default filter is short (20 crossings): it is the rougher of the two.
    assert np.abs(ours[600:-600, 0] - theirs[600:-600]).max() < 5e-3
    soxr = pytest.importorskip("soxr")
    best = soxr.resample(samples, rate, 16_000, quality="VHQ")
    assert np.abs(ours[600:-600, 0] - best[600:-600]).max() < 2e-5


def test_stereo_is_mixed_before_it_is_resampled() -> None:
    samples = voice(44_100, 2, 44_100)
    data = encode(samples, 44_100, "FLAC", "PCM_16")
    mono, _ = media.run_audio_chain(data, "mono; resample rate=16000")
    both, geometry = media.run_audio_chain(data, "resample rate=16000")
    assert geometry["channels"] == 2
    assert np.abs(both.mean(axis=1) - mono[:, 0]).max() < 1e-6


def test_chunks() -> None:
    samples = voice(10_000)
    data = encode(samples, 16_000, "WAV", "FLOAT")
    whole = samples.astype(np.float32)[:, 0]
    chunks, geometry = media.run_audio_chain(data, "chunk samples=3000 hop=2000")
    assert chunks.shape == (5, 3000, 1) and geometry["chunks"] == 5
    padded = np.concatenate([whole, np.zeros(3000, np.float32)])
    for i in range(5):
        assert np.array_equal(chunks[i, :, 0], padded[2000 * i :][:3000])
    kept, _ = media.run_audio_chain(data, "chunk samples=3000 last=drop")
    assert kept.shape == (3, 3000, 1)
    cut, _ = media.run_audio_chain(data, "fit samples=100")
    assert np.array_equal(cut[:, 0], whole[:100])


def test_chance_is_keyed() -> None:
    chain = media.AudioChain("random_cut samples=500")
    data = encode(voice(10_000), 16_000, "WAV", "FLOAT")
    runs = [chain.run(data, key)[0] for key in (1, 1, 2)]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[1], runs[2])


def test_a_plan_needs_only_the_start_of_a_flac() -> None:
    data = file_of("flac-44k-stereo")
    chain = media.AudioChain("mono; resample rate=16000; log_mel tokens=qwen2_audio")
    planned = chain.planned_size(data)
    assert planned == chain.planned_size(data[:64])
    assert planned == chain.run(data)[1]


@functools.cache
def bad_files() -> dict[str, tuple[bytes, str]]:
    wav, flac = file_of("wav-8k-mono"), file_of("flac-16k")
    ogg = file_of("ogg-vorbis")
    nan = encode(np.where(np.arange(1000) == 77, np.nan, 0.1), 16_000, "WAV", "FLOAT")
    return {
        "empty": (b"", "empty"),
        "html": (b"<!DOCTYPE html><p>404", "HTML"),
        "wav cut": (wav[:-100], "is cut"),
        "wav header cut": (wav[:30], "cut or damaged"),
        "wav 0 Hz": (wav[:24] + bytes(4) + wav[28:], "0 Hz"),
        "wav 0 channels": (wav[:22] + bytes(2) + wav[24:], "contradicts itself"),
        "flac cut": (flac[: len(flac) // 2], "cut or damaged"),
        "flac longer than it is": (flac[:22] + struct.pack(">I", 160_001) + flac[26:], "promised"),
        "flac of 2 billion samples": (
            flac[:22] + struct.pack(">I", 2_000_000_000) + flac[26:],
            "refused before decoding",
        ),
        "ogg cut": (ogg[: len(ogg) // 2], "ogg is cut"),
        "not a number": (nan, "no number at sample 77"),
    }


@pytest.mark.parametrize("name", bad_files())
def test_bad_files_are_refused_with_a_reason(name: str) -> None:
    data, reason = bad_files()[name]
    with pytest.raises(ValueError, match=reason):
        media.decode_audio(data)


def test_limits_come_from_the_chain() -> None:
    data = file_of("flac-16k")
    for limit in ("max_bytes=10", "max_frames=9", "max_seconds=9", "max_ratio=1 ratio_floor=1"):
        with pytest.raises(ValueError, match="refused before decoding"):
            media.decode_audio(data, limit)


def test_one_chain_serves_many_threads() -> None:
    chain = media.AudioChain("mono; resample rate=16000; log_mel")
    data = {name: file_of(name) for name in ("flac-16k", "flac-44k-stereo", "wav-8k-mono")}
    wanted = {name: chain.run(one)[0] for name, one in data.items()}
    wrong: list[Any] = []

    def work() -> None:
        for name, one in list(data.items()) * 5:
            if not np.array_equal(chain.run(one)[0], wanted[name]):
                wrong.append(name)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
