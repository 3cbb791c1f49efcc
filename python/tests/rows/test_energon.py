"""Folders that Energon prepared, and metadatasets over them, as sources and weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from corpora import job_config
from overlord._src.config.reading import read_config
from stores import served_bucket
from test_formats_oracle import bytes_of, check_rows, check_source, open_source
from test_webdataset import tar_of

import overlord as ol

WRITTEN = Path(__file__).parent.parent / "energon"
FOLDER: dict[str, Any] = {"format": "energon", "text": "txt", "tokenizer": "bytes"}


def text_of(shard: int, row: int, word: str = "text") -> str:
    return f"{word} {row} of shard {shard}"


def texts_of(shards: Iterable[int], word: str = "text") -> list[str]:
    return [text_of(shard, row, word) for shard in shards for row in range(10)]


def prepared(folder: Path, word: str = "text") -> Path:
    """Eight tars of ten samples, and what `energon prepare` writes for such."""
    (folder / "shards").mkdir(parents=True)
    for shard in range(8):
        samples = [
            {
                "__key__": f"{word}{shard}-{row}",
                "txt": text_of(shard, row, word).encode(),
                "json": json.dumps({"n": row}).encode(),
            }
            for row in range(10)
        ]
        (folder / "shards" / f"data-{shard}.tar").write_bytes(tar_of(samples))
    (folder / ".nv-meta").mkdir()
    shutil.copy(WRITTEN / "info.json", folder / ".nv-meta" / ".info.json")
    for name in ("split.yaml", "dataset.yaml"):
        shutil.copy(WRITTEN / name, folder / ".nv-meta" / name)
    return folder


def write_split(folder: Path, parts: Any, **more: Any) -> None:
    told = yaml.safe_dump({"split_parts": parts, **more})
    (folder / ".nv-meta" / "split.yaml").write_text(told)


PARTS: dict[str | None, Sequence[int]] = {
    None: range(6),
    "train": range(6),
    "val": [6],
    "test": [7],
}


@pytest.mark.parametrize("part", PARTS)
def test_a_folder_stands_for_the_tars_of_a_part(part: str | None, tmp_path: Path) -> None:
    prepared(tmp_path / "coco")
    said = {} if part is None else {"split_part": part}
    texts = bytes_of(texts_of(PARTS[part]))
    check_source(tmp_path, {"files": "coco/", **FOLDER, **said}, texts, ["window"])
    check_rows(open_source(tmp_path, {"files": "coco", **FOLDER, **said}), texts)


def test_what_is_left_out_and_other_forms(tmp_path: Path) -> None:
    """Tars that are excluded; a split as JSON; names in braces; several folders."""
    one, two = prepared(tmp_path / "one"), prepared(tmp_path / "two", "word")
    tars = ["shards/data-{0..2}.tar", "shards/data-5.tar"]
    write_split(one, {"train": tars}, exclude=["shards/data-{1,5}.tar"])
    (two / ".nv-meta" / "split.yaml").unlink()
    told = {"split_parts": {"train": ["shards/data-4.tar"]}, "exclude": []}
    (two / ".nv-meta" / "split.json").write_text(json.dumps(told))
    source = {"files": "{one,two}/", **FOLDER}
    expected = bytes_of([*texts_of([0, 2]), *texts_of([4], "word")])
    check_rows(open_source(tmp_path, source), expected)


def test_the_stream_is_that_of_the_tars(tmp_path: Path) -> None:
    prepared(tmp_path / "coco")
    hashes = set()
    tars = {"files": "coco/shards/data-{0..5}.tar", "text": "txt", "tokenizer": "bytes"}
    for number, source in enumerate(({"files": "coco/", **FOLDER}, tars)):
        job = open_source(tmp_path, source, index_dir=str(tmp_path / str(number)), context=96)
        with job.train(ranks="all", hash=True) as loaders:
            for _ in loaders.rounds():
                pass
            hashes.add(loaders.stream_hash())
    assert len(hashes) == 1


def metadataset(path: Path, splits: Any, kind: str = "MetadatasetV2") -> Path:
    """The YAML of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    told = {"__module__": "megatron.energon", "__class__": kind, "splits": splits}
    path.write_text(yaml.safe_dump(told))
    return path


def mixed_config(folder: Path, files: str = "mix.yaml", **source: Any) -> dict[str, Any]:
    """A job over a metadataset and a source of its own."""
    config = job_config(folder, {"vlm": {"files": files, **FOLDER, **source}}, at_end="repeat")
    config["mixture"] = {"unit": "samples", "weights": {"vlm": 1}}
    return config


def weights_of(config: Any) -> dict[str, float]:
    weights = read_config(config).config.mixture.weights
    assert weights is not None
    return dict(weights)


def test_a_metadataset_is_sources_with_weights(tmp_path: Path) -> None:
    """Shares as Energon's own loader has them: 5, 2 and 1 of 8, twice nested."""
    for name in ("coco", "coyo", "deep/other"):
        prepared(tmp_path / name, name.replace("/", "-"))
    metadataset(tmp_path / "deep" / "inner.yaml", {"train": {"path": "./other"}})
    blend = [
        {"weight": 5, "path": "./coco", "subflavors": {"kind": "small"}},
        {"weight": 2, "path": "coyo"},
        {"weight": 1, "path": str(tmp_path / "coyo"), "split_part": "val"},
        {"weight": 8, "path": "deep/inner.yaml", "shuffle_over_epochs_multiplier": 1},
    ]
    metadataset(tmp_path / "mix.yaml", {"train": {"blend": blend}, "val": {"path": "./coco"}})
    config = mixed_config(tmp_path, window_rows=16)
    shares = {"vlm-coco": 5, "vlm-coyo": 2, "vlm-coyo-val": 1, "vlm-other": 8}
    assert weights_of(config) == {name: share / 16 for name, share in shares.items()}
    sources = read_config(config).config.sources
    assert sources["vlm-coyo-val"].split_part == "val"
    assert sources["vlm-other"].files == [f"{tmp_path}/deep/other/"]
    assert all(source.window_rows == 16 for source in sources.values())
    assert weights_of(mixed_config(tmp_path, split_part="val")) == {"vlm-coco": 1}
    config["steps"] = 20
    with ol.job(config).train() as loader:
        for _ in loader:
            pass
        told = loader.state_dict()["sources"]
    rows = {name: 10 if name.endswith("-val") else 60 for name in shares}
    drawn = {name: one["pass"] * rows[name] + one["position"] for name, one in told.items()}
    for name, share in shares.items():
        assert abs(drawn[name] - sum(drawn.values()) * share / 16) < 3


def test_metadatasets_of_the_first_kind(tmp_path: Path) -> None:
    listed = {"train": {"datasets": [{"path": "coco", "weight": 3}, {"path": "coyo"}]}}
    metadataset(tmp_path / "mix.yaml", listed, "Metadataset")
    assert weights_of(mixed_config(tmp_path)) == {"vlm-coco": 0.75, "vlm-coyo": 0.25}


def test_groups_wherever_a_metadataset_has_a_weight(tmp_path: Path) -> None:
    """Beside other sources, in stages, and in the mixture of another stream."""
    blend = {"blend": [{"path": "a", "weight": 1}, {"path": "b", "weight": 3}]}
    metadataset(tmp_path / "mix.yaml", {"train": blend, "val": {"path": "a"}})
    config = mixed_config(tmp_path)
    config["sources"]["web"] = {"files": "web.jsonl", "text": "text", "tokenizer": "bytes"}
    config["sources"]["held"] = {**config["sources"]["vlm"], "split_part": "val"}
    stages = [
        {"steps": [0, 5], "weights": {"web": 1}},
        {"steps": [5, None], "weights": {"web": 1, "vlm": 4}},
    ]
    config["mixture"] = {"unit": "samples", "stages": stages}
    valid = {"unit": "samples", "weights": {"held": 2}}
    config["streams"] = {"valid": {"mixture": valid, "at_end": "drop"}}
    read = read_config(config).config
    assert read.mixture.stages is not None
    assert read.mixture.stages[1].weights == {"web": 1, "vlm-a": 1, "vlm-b": 3}
    assert read.streams["valid"].mixture is not None
    assert read.streams["valid"].mixture.weights == {"held-a": 2}


def test_from_a_bucket(tmp_path: Path) -> None:
    """Folders and the metadataset over them, and the stream of the same on disk."""
    pytest.importorskip("moto", reason="comes with `make setup` for tests")
    corpus = tmp_path / "corpus"
    for name in ("coco", "coyo"):
        prepared(corpus / name, name)
    blend = [{"path": "../coco", "weight": 1}, {"path": "../coyo", "weight": 1}]
    metadataset(corpus / "mixes" / "mix.yaml", {"train": {"blend": blend}})
    with served_bucket() as bucket:
        hashes = set()
        for root in (str(corpus), bucket.put_folder(corpus, "energon")):
            config = mixed_config(tmp_path, f"{root}/mixes/mix.yaml", window_rows=16)
            config["sources"]["vlm"]["files"] = f"{root}/mixes/mix.yaml"
            config.update(steps=10, index_dir=str(tmp_path / f"index{len(hashes)}"))
            with ol.job(config).train(ranks="all", hash=True) as loaders:
                for _ in loaders.rounds():
                    pass
                hashes.add(loaders.stream_hash())
    assert len(hashes) == 1


# What is refused


def test_folders_that_are_refused(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "coco")

    def refusal(**source: Any) -> str:
        with pytest.raises((ol.ConfigError, ol.OverlordError)) as caught:
            open_source(tmp_path, {"files": "coco/", **FOLDER, **source}).open_stream()
        return str(caught.value)

    text = refusal(split_part="dev")
    assert "sources.s.split_part" in text and "train, val, test" in text
    assert "energon prepare" in refusal(files="shards/")
    write_split(folder, {"train": ["shards/data-0.tar"]}, exclude=["shards/data-0.tar/5"])
    assert "single samples (shards/data-0.tar/5)" in refusal()
    write_split(folder, {"train": ["shards/data-9.tar"]})
    assert "data-9.tar" in refusal()
    write_split(folder, {"train": ["../other/data-0.tar"]})
    assert "outside of the folder" in refusal()
    write_split(folder, {"train": ["shards/data-0.tar"]}, exclude=["shards/data-0.tar"])
    assert "has no tars" in refusal()
    write_split(folder, ["shards/data-0.tar"])
    assert "no `split_parts`" in refusal()
    (folder / ".nv-meta" / "split.yaml").write_text("{")
    assert "split.yaml cannot be read" in refusal()
    with pytest.raises(ol.ConfigError, match="belongs to folders of Energon"):
        ol.job(job_config(tmp_path, {"s": {"files": "a.tar", "split_part": "val", "text": "txt"}}))


ONE = {"path": "coco", "weight": 1}
REFUSED: dict[str, tuple[Any, list[str]]] = {
    "repetitions": ({"blend_epochized": [ONE]}, ["blend_epochized", "max_passes"]),
    "a join": ({"join": [ONE]}, ["`join`"]),
    "a subset": ({"path": "coco", "subset": {"range": ["0%", "50%"]}}, ["`subset`", "`split`"]),
    "a subset of all": ({"blend": [ONE], "subset": {}}, ["`subset`"]),
    "other media": ({"blend": [{**ONE, "aux": {"a": "b"}}]}, ["`aux`"]),
    "a key": ({"blend": [{**ONE, "colour": 3}]}, ["`colour`"]),
    "a shuffle": ({"blend": [{**ONE, "shuffle_over_epochs_multiplier": 2}]}, ["shuffle_over"]),
    "another split": ({"blend": [{**ONE, "split_config": "x.yaml"}]}, ["`split_config`"]),
    "JSON lines": ({"path": "a.jsonl"}, ["a.jsonl", "a source of its own"]),
    "no path": ({"blend": [{"weight": 1}]}, ["has no path"]),
    "no weight": ({"blend": [{**ONE, "weight": -1}]}, ["has no weight"]),
    "no weights": ({"blend": [{**ONE, "weight": 0}]}, ["no dataset of part train has a weight"]),
    "nothing": ({"blend": []}, ["lists no datasets"]),
    "itself": ({"path": "mix.yaml"}, ["deep in each other"]),
    "what is not there": ({"path": "gone.yaml"}, ["gone.yaml is not there"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_config_can_say_is_refused(case: str, tmp_path: Path) -> None:
    inside, words = REFUSED[case]
    metadataset(tmp_path / "mix.yaml", {"train": inside})
    with pytest.raises(ol.ConfigError) as caught:
        ol.job(mixed_config(tmp_path))
    for word in ["sources.vlm.files", *words]:
        assert word in str(caught.value)


def test_configs_that_are_refused(tmp_path: Path) -> None:
    metadataset(tmp_path / "mix.yaml", {"train": {"path": "coco"}})

    def refusal(config: Any) -> str:
        with pytest.raises(ol.ConfigError) as caught:
            ol.job(config)
        return str(caught.value)

    tokens = mixed_config(tmp_path)
    del tokens["mixture"]["unit"]
    assert "mixture.unit" in refusal(tokens) and "count samples" in refusal(tokens)
    passes = mixed_config(tmp_path)
    passes["mixture"]["max_passes"] = {"vlm": 2}
    assert "vlm-coco" in refusal(passes)
    assert "has no part val" in refusal(mixed_config(tmp_path, split_part="val"))
    named = mixed_config(tmp_path)
    named["sources"]["vlm-coco"] = {"files": "a.jsonl", "text": "text", "tokenizer": "bytes"}
    assert "is named vlm-coco" in refusal(named)
    (tmp_path / "mix.yaml").write_text("splits: [1]")
    assert "is no metadataset" in refusal(mixed_config(tmp_path))
    (tmp_path / "mix.yaml").write_text("- 1")
    assert "no mapping" in refusal(mixed_config(tmp_path))
