"""Batches to look at: pictures as the model sees them, pages, histograms."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from overlord._src.corpus import DEMO, CorpusParameters, ensure_corpus, media_files
from overlord._src.corpus.chance import Chance
from overlord._src.corpus.config_text import demo_config
from overlord._src.showing.batch_page import Shown, batch_page, caption_of
from overlord._src.showing.batch_told import BatchReader, Document
from overlord._src.showing.histogram import histogram, histogram_svg
from overlord._src.showing.pixels import pictures_of
from overlord._src.showing.sounds import spectrum_picture, waveform_svg
from overlord._src.showing.source_histograms import probed
from overlord.cli import main
from overlord.cli.demo_command import write_config
from overlord.cli.terminal import make_console

import overlord as ol
from overlord import _core as core

SMALL = CorpusParameters(
    seed=3,
    sources=tuple(
        replace(
            source,
            documents=60 if source.kind in ("pairs", "sounds", "interleaved") else 40,
            lengths=replace(source.lengths, most=600),
        )
        for source in DEMO.sources
    ),
)
SMALL_STEP = ["context=1024", "bins=4"]
CLIP = "mean=0.48145466,0.4578275,0.40821073 std=0.26862954,0.26130258,0.27577711"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The config of the demo over a small corpus."""
    folder = tmp_path_factory.mktemp("demo")
    ensure_corpus(folder / "data", SMALL)
    config = folder / "mix.yaml"
    # One process of tokenizers for each of many small engines is enough.
    config.write_text(demo_config().replace("tokenizer_processes: 2", "tokenizer_processes: 1"))
    return config


def drawing(key: int = 1) -> bytes:
    """The file of some picture."""
    return media_files.drawn_picture(Chance(key))[2]


@pytest.mark.parametrize("normalise", ["", f"; normalise {CLIP}"])
@pytest.mark.parametrize(
    "cut",
    [
        "patchify layout=qwen2vl patch=14 temporal=2 merge=2",
        "patchify layout=qwen2vl patch=7 temporal=1 merge=1",
        "patchify layout=vit patch=14",
        "patchify layout=vit_last patch=28",
        "planes",
        "",
    ],
)
def test_rows_become_the_picture_again(cut: str, normalise: str) -> None:
    resized = "smart_resize factor=28 min_pixels=3136 max_pixels=50176"
    plain: Any = core.run_image_chain(drawing(), resized)[0]
    order = f"; {cut}" if cut else ""
    text = resized + (order + normalise if cut == "planes" else normalise + order)
    chain = core.ImageChain(text)
    rows, geometry = chain.run(drawing())
    if not geometry["patches"]:
        rows = rows[None]
    shown = pictures_of(rows, geometry["grid_thw"], chain.text)
    assert len(shown) == 1 and np.array_equal(shown[0], plain)


def test_tiles_are_several_pictures() -> None:
    text = "tile size=56 most=4 thumbnail=true; patchify layout=vit patch=14"
    rows, geometry = core.run_image_chain(drawing(4), text)
    plain: Any = core.run_image_chain(drawing(4), text.split(";")[0])[0]
    times, high, wide = geometry["grid_thw"]
    grid = (times * geometry["tiles"], high, wide)
    shown = pictures_of(rows, grid, core.ImageChain(text).text)
    assert len(shown) == geometry["tiles"] > 1 and np.array_equal(np.stack(shown), plain)


def test_grey_pictures_are_shown_in_grey() -> None:
    chain = core.ImageChain("resize width=28 height=28; grey; patchify layout=vit patch=14")
    rows, geometry = chain.run(drawing())
    (shown,) = pictures_of(rows, geometry["grid_thw"], chain.text)
    assert shown.shape == (28, 28, 3) and np.all(shown[:, :, 0] == shown[:, :, 2])


def test_histograms_count_every_value() -> None:
    rng = np.random.default_rng(0)
    for values in (rng.lognormal(5, 2, 5000).astype(int), [3], [7] * 20, [0, 0, 1], range(12)):
        one = histogram("n", "tokens", list(values))
        assert one is not None and sum(one.counts) == one.total == len(list(values))
        assert one.least <= one.median <= one.most and len(one.line()) == len(one.counts)
        assert histogram_svg(one).count("<rect") == len(one.counts)
    assert histogram("none", "tokens", []) is None


def test_sounds_have_a_wave_and_a_spectrum() -> None:
    for count in (0, 1, 5, 4000):
        wave = waveform_svg(np.sin(np.arange(count) / 9), 1.0)
        assert wave.startswith("<svg") and "nan" not in wave
    mels = np.outer(np.arange(80), np.ones(30)).astype(np.float32)
    picture = spectrum_picture(mels)
    assert picture.shape == (160, 60, 3)
    assert picture[0].sum() > picture[-1].sum()  # high notes, which are loud here, are at the top


class Page(HTMLParser):
    """What a page asks for, and its pictures."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.asked: list[str] = []
        self.images: list[tuple[str, bytes]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.asked += [
            named[name] for name in ("src", "href", "data", "xlink:href") if name in named
        ]
        if tag == "img":
            self.images.append((named["alt"], base64.b64decode(named["src"].partition(",")[2])))

    def handle_data(self, data: str) -> None:
        self.words += data


def self_contained(page: Page, text: str) -> None:
    assert all(asked.startswith("data:") for asked in page.asked)
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    assert "@import" not in text and "url(" not in text and "http" not in text


def test_a_batch_can_be_looked_at(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--set", *SMALL_STEP[:1], "--set", *SMALL_STEP[1:]]
    out = tmp_path / "look"
    assert main(["inspect", str(demo), *words, "rank", "0", "--step", "1", "--out", str(out)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "page.html" in said and "drawings" in said
    text = (out / "page.html").read_text()
    page = Page(text)
    self_contained(page, text)
    expected = {}  # caption -> pixels, by the engine's own loader
    job = ol.job(demo, overrides=SMALL_STEP)
    with job.train() as loader:
        batches = [batch for batch in (next(loader) for _ in range(8)) if batch.step == 1]
    reader = BatchReader(job, job.open_stream())
    for document in reader.documents(batches):
        for item in document.items():
            if item.kind == "image" and len(document.items()) == 1:
                expected[caption_of(item)] = item.pictures()[0]
    assert expected
    found = {name: core.decode_image(data) for name, data in page.images}
    for caption, pixels in expected.items():
        assert np.array_equal(found[caption], pixels) and caption in page.words
        assert " on " in caption and "<|" not in caption


def test_documents_are_whole_texts_with_media_in_place(demo: Path) -> None:
    job = ol.job(demo, overrides=SMALL_STEP)
    with job.train() as loader:
        batches = [next(loader) for _ in range(4)]
    documents = BatchReader(job, job.open_stream()).documents(batches)
    assert sum(document.count for document in documents) == sum(b.num_tokens for b in batches)
    drawings = [document for document in documents if document.source == "drawings"]
    assert drawings
    for document in drawings:
        (item,) = document.items()
        assert document.folded().startswith(f"[image {item.grid[2]}x{item.grid[1]} -> ")
        assert document.loss == len(document.text().split()) + 1  # its words and the end of it
        assert document.file.endswith(".tar")


def test_pictures_stand_where_they_are_in_the_text(demo: Path) -> None:
    job = ol.job(demo, overrides=SMALL_STEP)
    seen = {"guides": 0, "tunes": 0}
    with job.train() as loader:
        batches = [next(loader) for _ in range(40)]
    for document in BatchReader(job, job.open_stream()).documents(batches):
        if document.source == "tunes":
            (item,) = document.items()
            assert item.kind == "audio" and "frames" in document.folded()
            assert item.rows.shape == (item.grid[2], 80)
            seen["tunes"] += 1
        if document.source != "guides":
            continue
        for item in document.items():
            at = document.parts.index(item)
            words = str(document.parts[at - 1]).split()  # the caption ends the text before it
            assert words[-2] == "on" and words[-1].endswith(":")
            seen["guides"] += 1
        assert "<|" not in document.text()
    assert min(seen.values()) > 3


def test_a_rank_with_a_slice_shows_the_same(demo: Path) -> None:
    folded = []
    for mesh, rank in (("dp=1", 0), ("cp=2,dp=1", 1), ("pp=2,dp=1", 1)):
        job = ol.job(demo, mesh=mesh, overrides=SMALL_STEP)
        with job.train(rank=rank) as loader:
            batches = [next(loader) for _ in range(2)]
        documents = BatchReader(job, job.open_stream()).documents(batches)
        folded.append([(d.name, d.folded()) for d in documents if d.source == "drawings"])
    assert folded[0] and folded[0] == folded[1] == folded[2]


def test_what_a_rank_encodes_is_shown(demo: Path, tmp_path: Path) -> None:
    strategy = ["--set", "strategy={encoder: {column: image_patches, bytes_per_unit: 8}}"]
    words = ["--mesh", "dp=2", *strategy, *(f"--set={word}" for word in SMALL_STEP)]
    encoded = []
    for rank in range(2):
        out = tmp_path / str(rank)
        assert main(["inspect", str(demo), *words, "rank", str(rank), "--out", str(out)]) == 0
        page = Page((out / "page.html").read_text())
        assert "this rank encodes" in page.words
        assert rank == 1 or "are with other ranks" in page.words  # rank 1 has no such document
        encoded += [
            core.decode_image(data).tobytes()  # type: ignore[attr-defined]
            for name, data in page.images
            if not name.startswith("log-mel")
        ]
    job = ol.job(demo, overrides=SMALL_STEP)
    with job.train() as loader:
        documents = BatchReader(job, job.open_stream()).documents([next(loader) for _ in range(4)])
    pictures = [
        pixels.tobytes()
        for document in documents
        for item in document.items()
        for pixels in item.pictures()
    ]
    assert pictures and sorted(encoded) == sorted(pictures)


def test_texts_of_strangers_are_only_text() -> None:
    document = Document("<b>web</b>", 0, 1, 0, 9, 0, 0, 0, 8, False, "a&b.parquet", 3, 3)
    document.parts = ["<script>alert(1)</script> & more"]
    shown = Shown("job <i>", "train", 0, 0, "dp=0", 64, [document], None)  # type: ignore[arg-type]
    text = batch_page(shown)
    page = Page(text)
    self_contained(page, text)
    assert not {"script", "b", "i"} & set(page.tags) and "<script>alert(1)" in page.words


def test_histograms_of_indexes(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(demo), "histograms", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert (
        "drawings: image width" in said and "drawings: image size" in said and "law: length" in said
    )
    assert "not known of" in said and "overlord index --lengths" in said
    text = (tmp_path / "histograms.html").read_text()
    page = Page(text)
    self_contained(page, text)
    units = ("tokens  ", "bytes  ", "pixels  ", "ms  ", "hertz  ")
    rows = [line for line in said.splitlines() if any(unit in line for unit in units)]
    assert page.tags.count("svg") == len(rows) and "tunes: audio duration" in said


def test_headers_tell_sizes_and_durations() -> None:
    one = [np.array([number], np.int64) for number in (16_000, 1, 40_000, 0)]
    told = {name: int(column[0]) for name, _, column in probed("audio", one)}
    assert told == {"duration": 2500, "rate": 16_000}
    one = [np.array([number], np.int64) for number in (224, 168, 1)]
    told = {name: int(column[0]) for name, _, column in probed("image", one)}
    assert told == {"width": 224, "height": 168, "area": 224 * 168}
    assert probed("smell", one) == []


def test_a_stored_picture_is_described_and_written(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["inspect", str(demo), "sample", "drawings", "3", "--out", str(tmp_path)]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "image: " in said and "patches" in said and "tokens" in said
    (file,) = tmp_path.iterdir()
    assert core.probe_image(file.read_bytes())["width"] >= 112


def test_the_demo_writes_its_config_anew_for_another_corpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mix.yaml"
    console = make_console()
    write_config(console, path, "first", anew=False)
    write_config(console, path, "second", anew=False)
    assert path.read_text() == "first"  # a config that somebody edited stays
    write_config(console, path, "second", anew=True)
    assert path.read_text() == "second" and (tmp_path / "mix.yaml.old").read_text() == "first"
    assert "mix.yaml.old" in " ".join(capsys.readouterr().out.split())


def test_the_demo_is_one_stream_on_every_mesh(demo: Path, tmp_path: Path) -> None:
    reports = []
    for mesh, threads in (("dp=2", 1), ("dp=2", 3), ("pp=2,dp=2,cp=2,tp=2", 2)):
        file = tmp_path / "report.json"
        words = ["run", str(demo), "--no-live", "--steps", "4", "--json", str(file)]
        assert main([*words, "--mesh", mesh, "--threads", str(threads), *SMALL_STEP]) == 0
        reports.append(json.loads(file.read_text()))
    assert reports[0]["stream_hash"] == reports[1]["stream_hash"]
    assert len({report["content_hash"] for report in reports}) == 1
    assert reports[0]["mixture"]["drawings"]["samples"] > 0 and reports[0]["holes"] == 0


def test_the_demo_goes_on_where_it_stopped(demo: Path) -> None:
    def content(batch: Any) -> tuple[Any, ...]:
        media = [(name, one.data.tobytes()) for name, one in batch.media.items()]
        return batch.step, batch.tokens.tobytes(), media

    with ol.job(demo, overrides=SMALL_STEP).train() as loader:
        for _ in range(5):
            next(loader)
        state = loader.state_dict()
        after = [content(next(loader)) for _ in range(6)]
    with ol.job(demo, overrides=SMALL_STEP).train() as loader:
        loader.load_state_dict(state)
        assert [content(next(loader)) for _ in range(6)] == after
    assert any(media for _, _, media in after)
