"""What sources cost: every stage is counted, by both engines, and shown to people and machines."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from chat_rows import chat_job, chat_tokenizer, conversations, write_rows
from corpora import made_up_texts
from overlord._src.index.source_profile import (
    SourceProfile,
    StageProfile,
    profile_path,
    read_profile,
)
from overlord._src.node.watch import ask
from overlord.cli import main
from small_job import WEIGHTS, small_job
from test_media_stream import image_of, made_up_pairs, pairs_config
from test_packed_media import decoded_at
from test_transforms import config_of as transform_config
from trainers import in_time, trainers, until_nothing_left

import overlord as ol

ENGINES = ["embedded", "processes"]


def profile_after(config: dict[str, Any], engine: str, name: str = "s") -> SourceProfile:
    """The profile that a whole run leaves."""
    job = ol.job(config)
    [source] = [one for one in job.open_stream().sources if one.name == name]
    path = profile_path(job.loaded, source)
    path.unlink(missing_ok=True)
    with job.train(rank=0, engine=engine) as loader:
        for _ in loader:
            pass
    in_time(path.exists, "the node writes its profile before it ends")
    found = read_profile(job.loaded, source)
    assert found is not None and found.engine == engine
    return found


def source_of(config: dict[str, Any]) -> tuple[Any, Any]:
    """The only source of a job, and the config it is from."""
    job = ol.job(config)
    [source] = job.open_stream().sources
    return job.loaded, source


def in_and_out(stage: StageProfile) -> tuple[int, int]:
    return stage.in_bytes, stage.out_bytes


def absolute(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    """With the folder of its indexes by name."""
    return {**config, "index_dir": str(folder / "index")}


@pytest.mark.parametrize("engine", ENGINES)
def test_text_and_tokens(tmp_path: Path, engine: str) -> None:
    tokenizer = chat_tokenizer(tmp_path / "model")
    texts = made_up_texts(300, seed=2)
    file = write_rows(tmp_path, "jsonl", [{"text": text} for text in texts])
    config = chat_job(tmp_path, file, None, text="text")
    del config["sources"]["sft"]["chat"]
    profile = profile_after(config, engine, "sft")
    size = os.path.getsize(file)
    tokens = sum(len(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts)
    letters = sum(len(text.encode()) for text in texts)
    stages = profile.stages
    assert profile.documents == profile.rows_posted == 300 and profile.bad_rows == 0
    assert in_and_out(stages["read"]) == (size, size)
    assert in_and_out(stages["decode"]) == (size, letters)
    assert in_and_out(stages["tokenise"]) == (letters, 4 * tokens)
    assert in_and_out(stages["send"]) == (4 * tokens, 4 * tokens)
    for name in ("read", "decode", "tokenise"):
        assert stages[name].ns > 0, name
    for name in ("python", "media", "unpack"):
        assert stages[name] == StageProfile(0, 0, 0, 0), name
    assert stages["read"].peak_bytes == size
    assert stages["decode"].peak_bytes > 4 * tokens
    assert 0 < stages["send"].peak_bytes <= 4 * tokens
    assert stages["tokenise"].peak_bytes > 5 << 20, "a process of Python with a tokenizer"
    # Threads of a core that is shared with others wait within their stage, not one after another.
    threads = 2 + 2 + 1  # runtime.threads, io_threads, tokenizer_processes
    assert profile.rows_per_s > 0 and profile.work_ns < profile.elapsed_ns * threads


@pytest.mark.parametrize("engine", ENGINES)
def test_own_python_is_told_from_tokenising(tmp_path: Path, engine: str) -> None:
    config = transform_config(tmp_path, "own_transforms:loud", loaders=2)
    profile = profile_after(config, engine, "web")
    stages = profile.stages
    assert profile.loaders == 2
    assert stages["python"].ns > 0 and stages["tokenise"].ns > 0
    assert stages["tokenise"].peak_bytes > 5 << 20


@pytest.mark.parametrize("engine", ENGINES)
def test_media_are_counted_where_they_are_decoded(tmp_path: Path, engine: str) -> None:
    samples = made_up_pairs(48)
    stored = [len(image) for sample in samples if (image := image_of(sample)) is not None]
    config = absolute(pairs_config(tmp_path, samples), tmp_path)
    here = profile_after(decoded_at(config, "loader"), engine)
    there = profile_after(decoded_at(config, "constructor"), engine)
    assert (here.media_blobs, here.unpacked_blobs) == (len(stored), 0)
    assert (there.media_blobs, there.unpacked_blobs) == (len(stored), len(stored))
    made = here.stages["media"].out_bytes
    assert in_and_out(here.stages["media"]) == (sum(stored), made) and made > sum(stored) / 4
    assert in_and_out(there.stages["media"]) == (sum(stored), sum(stored)), "as they are stored"
    assert in_and_out(there.stages["unpack"]) == (sum(stored), made)
    assert here.stages["media"].ns > 0 and there.stages["unpack"].ns > 0
    assert here.stages["unpack"] == StageProfile(0, 0, 0, 0)
    assert 0 < there.stages["unpack"].peak_bytes <= made
    sent = here.stages["send"].out_bytes - there.stages["send"].out_bytes
    assert sent == made - sum(stored)


def test_media_inside_of_something_compressed_count_as_decoding(tmp_path: Path) -> None:
    import gzip

    samples = made_up_pairs(48)
    plain = absolute(pairs_config(tmp_path, samples), tmp_path)
    (tmp_path / "pairs.tar.gz").write_bytes(gzip.compress((tmp_path / "pairs.tar").read_bytes()))
    source = {**plain["sources"]["s"], "files": str(tmp_path / "pairs.tar.gz")}
    before = profile_after(plain, "embedded")
    other = {**plain, "sources": {"s": source}, "index_dir": str(tmp_path / "other")}
    after = profile_after(other, "embedded")
    media = before.stages["media"].in_bytes
    assert after.stages["media"].in_bytes == media
    more = after.stages["decode"].out_bytes - before.stages["decode"].out_bytes
    assert more >= media, "the blobs came out of a decompressed block"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_folder_that_takes_no_profile_fails_no_run(tmp_path: Path, engine: str) -> None:
    config = absolute(pairs_config(tmp_path, made_up_pairs(24)), tmp_path)
    in_the_way = profile_path(*source_of(config))
    in_the_way.mkdir(parents=True)  # as root nothing is read-only
    (in_the_way / "file").touch()
    with ol.job(config).train(engine=engine) as loader:
        assert sum(1 for _ in loader) > 0
    assert read_profile(*source_of(config)) is None


def test_a_look_at_a_step_leaves_the_profile_of_a_run(tmp_path: Path) -> None:
    config = absolute(pairs_config(tmp_path, made_up_pairs(600)), tmp_path)
    whole = profile_after(config, "embedded")
    with ol.job(config).train(prefetch=1) as loader:
        next(loader)
    assert read_profile(*source_of(config)) == whole


def test_processes_that_die_leave_what_they_have_done(tmp_path: Path) -> None:
    config, sockets = small_job(tmp_path, steps=1_000_000)
    with trainers(config, {"dp": 2}) as started:
        for trainer in started:
            trainer.until("step")
        [directory] = sockets.iterdir()

        def documents() -> int:
            return sum(item["documents"] for item in ask(str(directory))["loaders"])

        in_time(lambda: documents() > 0, "it tells of its work")

        def process() -> int:
            told = {item["name"]: item["pid"] for item in ask(str(directory))["processes"]}
            pid: int = told["loaders-0"]
            return pid

        before, pid = documents(), process()
        os.kill(pid, signal.SIGKILL)
        in_time(lambda: process() not in (0, pid), "another one is started")
        last = documents()  # of the dead
        in_time(lambda: documents() not in (0, last), "it tells of its work too")
    until_nothing_left(sockets)
    job = ol.job(config, mesh="dp=2")
    told = [read_profile(job.loaded, source) for source in job.open_stream().sources]
    assert len(told) == len(WEIGHTS)
    assert sum(item.documents for item in told if item is not None) > before
    assert all(item is not None and item.loaders == 1 for item in told)


def test_inspect_shows_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = decoded_at(
        absolute(pairs_config(tmp_path, made_up_pairs(24)), tmp_path), "constructor"
    )
    (tmp_path / "mix.yaml").write_text(json.dumps(config))
    where = str(tmp_path / "mix.yaml")
    assert main(["inspect", where, "profile"]) == 0
    assert "no profile of s" in capsys.readouterr().out
    assert main(["inspect", where]) == 0
    assert "last run" not in capsys.readouterr().out
    profile = profile_after(config, "embedded")
    assert main(["inspect", where, "profile", "--json"]) == 0
    [told] = json.loads(capsys.readouterr().out)
    assert told == json.loads(json.dumps(profile.data()))
    assert told["stages"]["unpack"]["ns"] == profile.stages["unpack"].ns > 0
    assert told["dominating_stage"] in told["stages"]
    assert main(["inspect", where, "profile"]) == 0
    text = capsys.readouterr().out
    for word in ("last run", "unpack us", "rows/s a core", "out/in", "most time in", "most memory"):
        assert word in text, text
    named = {line.split()[1] for line in text.splitlines() if line.startswith("s ")}
    assert {"read", "decode", "tokenise", "media", "send", "unpack"} <= named
    assert main(["inspect", where]) == 0
    assert "last run" in capsys.readouterr().out
    profile_path(*source_of(config)).write_text("{}")
    assert main(["inspect", where]) == 0
    assert "last run" not in capsys.readouterr().out


def test_a_profile_of_chat_rows(tmp_path: Path) -> None:
    chat_tokenizer(tmp_path / "model")
    rows = [{"messages": one} for one in conversations(40, seed=3)]
    config = chat_job(tmp_path, write_rows(tmp_path, "jsonl", rows), {"template": "chatml"})
    stages = profile_after(config, "embedded", "sft").stages
    assert stages["tokenise"].ns > 0 and stages["tokenise"].out_bytes % 5 == 0, "ids and a mask"


def endless_media(folder: Path) -> tuple[dict[str, Any], Path]:
    """Pictures for ever, decoded by constructors, beside a source of tokens."""
    config, sockets = small_job(folder, steps=1_000_000)
    pairs = pairs_config(folder, made_up_pairs(48))["sources"]["s"]
    sources = {**config["sources"], "s": {**pairs, "decode_at": "constructor"}}
    sources["s"]["files"] = str(folder / "pairs.tar")
    weights = {**WEIGHTS, "s": 1.0}
    return {**config, "sources": sources, "mixture": {"weights": weights}}, sockets


def test_top_and_trace_name_the_stages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, sockets = endless_media(tmp_path)
    file = tmp_path / "trace.json"
    with trainers(config, {"dp": 2}) as started:
        for trainer in started:
            trainer.until("step")
        [directory] = sockets.iterdir()
        in_time(lambda: bool(ask(str(directory))["unpacking"]), "constructors tell")
        capsys.readouterr()
        assert main(["top", str(directory), "--json", "--interval", "1.5"]) == 0
        sources = {item["source"]: item for item in json.loads(capsys.readouterr().out)["sources"]}
        times = sources["s"]["stage_ns"]
        assert times["unpack"] > 0 and sources["s"]["stage"] == max(times, key=times.__getitem__)
        assert 0 < sources["s"]["stage_share"] <= 1
        assert main(["top", str(directory), "--once", "--interval", "0.2"]) == 0
        assert "most time in" in capsys.readouterr().out
        assert main(["top", str(directory), "--metrics"]) == 0
        metrics = capsys.readouterr().out
        assert 'overlord_source_unpack_seconds_total{job="watched",stream="train",source="s"}' in (
            metrics
        )
        rows: list[dict[str, Any]] = []

        def traced() -> bool:
            assert main(["trace", str(directory), "--seconds", "0.5", "-o", str(file)]) == 0
            rows[:] = json.loads(file.read_text())["traceEvents"]
            spans = {(row["cat"], row["args"].get("whose")) for row in rows if row["ph"] in "Xb"}
            return {("unpack", "s"), ("media", "s"), ("answer", "s")} <= spans

        in_time(traced, "all stages of the pictures are in it")
    until_nothing_left(sockets, "nothing is left")
    steps = [row["args"]["step"] for row in rows if row.get("cat") == "unpack"]
    assert steps and min(steps) >= 0, "unpacking belongs to a step"
