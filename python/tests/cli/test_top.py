"""Looking at a running node: `overlord top`, its JSON, its metrics, who is waited for."""

from __future__ import annotations

import http.client
import json
import os
import pty
import re
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from overlord._src.errors import ConfigError
from overlord._src.node.metrics import CONTENT_TYPE, MetricsServer
from overlord._src.node.metrics import node_metrics as figures_of
from overlord._src.node.watch import NodeWatch, ask, process_memory
from overlord.cli import main
from overlord.cli.top_view import loaders_text, shadow_text
from small_job import WEIGHTS, small_job
from trainers import Trainer, in_time, trainers, until_nothing_left, until_paused

ENDLESS = 1_000_000
JOB = f"watched-{os.getpid()}"  # other tests watch jobs of this host at the same time


@contextmanager
def running(folder: Path, name: str = JOB, **options: Any) -> Iterator[tuple[list[Trainer], str]]:
    """Two ranks that go on for ever, and the directory of their node."""
    config, sockets = small_job(folder, steps=ENDLESS, name=name)
    config["runtime"] |= options.pop("runtime", {})
    (folder / "mix.yaml").write_text(json.dumps(config))
    with trainers(config, {"dp": 2}, **options) as started:
        for trainer in started:
            trainer.until("step")
        [directory] = sockets.iterdir()
        yield started, str(directory)
    until_nothing_left(sockets, "nothing is left")


def all_told(directory: str) -> bool:
    """Whether all processes have told of work that they have done: they do so once a second."""
    status = ask(directory)
    steps = [item["steps_consumed"] for item in status["clients"]]
    rows = [item["rows_posted"] for item in status["loaders"]]
    return len(steps) == 2 and len(rows) == 3 and all(steps) and all(rows)


def top_json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert main(["top", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_snapshot_has_processes_sources_and_ranks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(tmp_path) as (started, directory):
        in_time(lambda: all_told(directory), "all have told of their work")
        shown: dict[str, Any] = {}

        def rows_came() -> bool:
            """Processes tell of their work once a second, on a busy machine later."""
            shown.update(top_json(capsys, directory, "--json", "--interval", "1.5"))
            return sum(item["rows_per_s"] for item in shown["sources"]) > 0

        in_time(rows_came, "rows are read while somebody looks")
        assert (shown["job"], shown["stream"], shown["serving"]) == (JOB, "train", True)
        names = [item["name"] for item in shown["processes"]]
        assert names[:3] == ["node", "loaders-0", "constructors-0"]
        trainer_pids = {trainer.process.pid for trainer in started}
        assert {item["pid"] for item in shown["processes"][3:]} == trainer_pids
        for item in shown["processes"]:
            memory = item["memory"]
            assert memory["rss_bytes"] == memory["private_bytes"] + memory["shared_bytes"]
            assert memory["private_bytes"] <= memory["pss_bytes"] <= memory["rss_bytes"]
        assert [item["source"] for item in shown["sources"]] == sorted(WEIGHTS)
        assert all(item["rows"] > 0 and item["read_bytes"] > 0 for item in shown["sources"])
        assert shown["slowest_source"] in (None, *WEIGHTS)  # None: all comes out of caches
        assert [item["rank"] for item in shown["ranks"]] == [0, 1]
        assert all(item["steps_consumed"] > 0 for item in shown["ranks"])
        assert shown["missing"] == shown["gone"] == []
        assert shown["interval_s"] > 1.4


def test_the_screen_names_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(tmp_path) as (_, directory):
        in_time(lambda: all_told(directory), "all have told of their work")
        assert main(["top", str(tmp_path / "mix.yaml"), "--once", "--interval", "0.2"]) == 0
        text = capsys.readouterr().out
        for word in (JOB, "loaders-0", "constructors-0", "pss", *WEIGHTS, directory):
            assert word in text, text
        assert "wait per step" in text and "bad rows" in text
        assert "records not on disk yet, journal in" in text


def test_nodes_are_found_wherever_they_lie(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"found-{os.getpid()}"
    with running(tmp_path, name) as (_, directory):
        rows = {row["directory"]: row for row in top_json(capsys, "--json")}
        assert rows[os.path.realpath(directory)]["job"] == name
        assert main(["top"]) == 0
        assert name in capsys.readouterr().out
    assert main(["top", str(tmp_path / "mix.yaml"), "--once"]) == 1
    assert f"no node of job '{name}' runs on this host" in capsys.readouterr().err
    assert main(["top", str(tmp_path), "--once"]) == 1
    assert "no node" in capsys.readouterr().err


def test_restarts_are_counted(tmp_path: Path) -> None:
    with running(tmp_path) as (_, directory):
        watch = NodeWatch.of(directory)

        def loaders() -> dict[str, Any]:
            [found] = [item for item in watch.look()["processes"] if item["name"] == "loaders-0"]
            return dict(found)

        before = loaders()
        os.kill(before["pid"], signal.SIGKILL)
        in_time(lambda: loaders()["pid"] not in (0, before["pid"]), "it is started again")
        after = loaders()
        assert (before["restarts"], after["restarts"]) == (0, 1)
        assert after["generation"] == before["generation"] + 1
        assert all(item["bytes_per_s"] >= 0 for item in watch.look()["sources"])


def test_a_rank_that_stands_still_is_named(tmp_path: Path) -> None:
    config, sockets = small_job(tmp_path, steps=ENDLESS)
    config["runtime"] |= {"prefetch": 2, "runway": 4}
    with trainers(config, {"dp": 2}, pause_after=2) as started:
        until_paused(started)
        started[0].go()
        [directory] = sockets.iterdir()
        watch = NodeWatch.of(str(directory))

        def named() -> bool:
            waits = watch.look()["waits"]
            assert not any("rank 0 has step" in text for text in waits), waits
            return any("rank 1 has step" in text for text in waits)

        in_time(named, "the rank that stands still is named")


def test_a_rank_that_never_came_and_one_that_went(tmp_path: Path) -> None:
    with running(tmp_path) as (started, directory):
        started[1].kill()
        watch = NodeWatch.of(directory)
        in_time(lambda: watch.look()["gone"] == [1], "rank 1 is gone")
        assert any("rank 1 is gone" in text for text in watch.look()["waits"])


def test_rates_survive_a_restart_and_forget_the_past() -> None:
    def status(read: int, waited: int) -> dict[str, Any]:
        loader = dict.fromkeys(
            ("queue", "in_work", "documents", "buffer_bytes", "bad_rows", "read_wait_ns"), 0
        )
        loader |= dict.fromkeys(("decode_ns", "python_ns", "tokenise_ns", "media_ns", "send_ns"), 0)
        loader |= {"source": "web", "slot": 0, "read_bytes": read, "rows_posted": read, "reads": 1}
        unpacking = {"source": "web", "unpack_ns": waited // 4}
        client = {"rank": 0, "steps_arrived": 9, "steps_consumed": read // 100, "microbatches": 9}
        return {
            "job": "j",
            "stream": "train",
            "attempt": 1,
            "serving": True,
            "pid": os.getpid(),
            "restarts": 0,
            "term": 1,
            "recoveries": 0,
            "journal": "",
            **dict.fromkeys(("promotions", "shadowed", "unprotected", "shadow_bytes"), 0),
            "hosts": [],
            "decoding": [],
            "processes": [],
            "missing": [],
            "gone": [],
            "waits": "",
            "constructors": [],
            "unpacking": [unpacking] if read > 1000 else [],
            "planner": {},
            "memory": {},
            "loaders": [
                {**loader, "transform_ns": waited // 2, "tokenise_ns": waited // 2},
                {**loader, "source": "idle", "transform_ns": 0},
                {**loader, "source": "web", "slot": 1, "transform_ns": 0, "read_bytes": 0}
                | {"read_wait_ns": 0, "reads": 0, "buffer_bytes": 50},
            ],
            "clients": [{**client, "queue": 0, "wait_ns": waited}],
        }

    now = 0.0
    reads = iter([(1000, 0), (2000, 10**9), (300, 10**9), (1300, 10**9), (10300, 10**9)])
    watch = NodeWatch(lambda: status(*next(reads)), lambda: now)
    first = watch.look()
    assert first["sources"][1]["bytes_per_s"] == first["ranks"][0]["interval_wait_s"] == 0
    assert [loaders_text(source) for source in first["sources"]] == ["1", "1 of 2"]
    assert [source["idle_bytes"] for source in first["sources"]] == [0, 50]
    now = 1.0
    second = watch.look()
    assert second["sources"][1]["bytes_per_s"] == 1000
    assert second["sources"][1]["busy"] == 0.5 and second["sources"][0]["busy"] == 0
    assert (first["slowest_source"], second["slowest_source"]) == (None, "web")
    assert [item["stage"] for item in second["sources"]] == [None, "tokenise"]
    assert second["sources"][1]["stage_share"] == pytest.approx(2 / 3), "the rest is unpacking"
    assert second["ranks"][0]["interval_wait_s"] == 1
    assert second["ranks"][0]["wait_per_step_s"] == 0.1
    now = 2.0
    assert watch.look()["sources"][1]["bytes_per_s"] == 150, "counts from 0 after a restart"
    now = 7.0
    watch.look()
    now = 8.0
    last = watch.look()
    assert last["interval_s"] == 6 and last["sources"][1]["bytes_per_s"] == 10000 / 6


def test_memory_of_a_process_that_is_not_there() -> None:
    assert process_memory(2**22 + 7) is None
    own = process_memory(os.getpid())
    assert own is not None and own["private_bytes"] > 1 << 20


def test_the_live_view_ends_with_its_node(tmp_path: Path) -> None:
    with running(tmp_path) as (started, directory):
        ours, theirs = pty.openpty()
        terminal = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "60"}
        command = [sys.executable, "-m", "overlord", "top", directory, "--interval", "0.1"]
        shown = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=terminal)
        os.close(theirs)
        text = bytearray()

        def read() -> None:
            while True:
                try:
                    part = os.read(ours, 4096)
                except OSError:
                    return
                if not part:
                    return
                text.extend(part)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            in_time(lambda: b"constructors-0" in text, "the screen is there")
            for trainer in started:
                trainer.kill()
            assert shown.wait() == 0
        finally:
            shown.kill()
            shown.wait()
            reader.join()
            os.close(ours)
        assert b"the node has ended" in text


# --- Metrics --------------------------------------------------------------------------------------

SAMPLE = re.compile(r"^([a-z_]+)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')


def parsed(text: str) -> dict[str, tuple[str, list[tuple[dict[str, str], float]]]]:
    """Families of a Prometheus text: type and samples by name; fails where the text is not one."""
    assert text.endswith("\n")
    families: dict[str, tuple[str, list[tuple[dict[str, str], float]]]] = {}
    helped, current = "", ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helped = line.split(" ", 3)[2]
            assert helped not in families, f"{helped} comes twice"
            assert len(line.split(" ", 3)[3]) > 5
        elif line.startswith("# TYPE "):
            _, _, current, kind = line.split(" ")
            assert current == helped and kind in ("counter", "gauge")
            assert (kind == "counter") == current.endswith("_total")
            families[current] = (kind, [])
        else:
            found = SAMPLE.match(line)
            assert found is not None and found[1] == current, line
            labels = dict(LABEL.findall(found[2] or ""))
            assert LABEL.sub("", found[2] or "") == "", line
            families[current][1].append((labels, float(found[3])))
    for name, (_, samples) in families.items():
        keys = [tuple(sorted(labels.items())) for labels, _ in samples]
        assert samples and len(set(keys)) == len(keys), f"{name} has a sample twice"
    return families


def test_metrics_parse_and_have_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(tmp_path) as (_, directory):
        in_time(lambda: all_told(directory), "all have told of their work")
        capsys.readouterr()
        assert main(["top", directory, "--metrics"]) == 0
        families = parsed(capsys.readouterr().out)

        def labels(name: str, label: str) -> set[str]:
            assert all(item["job"] == JOB for item, _ in families[name][1])
            return {item[label] for item, _ in families[name][1]}

        assert families["overlord_up"][1][0][1] == 1
        for name in ("queue_blocks", "rows_total", "read_bytes_total", "bad_rows_total"):
            assert labels(f"overlord_source_{name}", "source") == set(WEIGHTS)
        for name in ("steps_total", "wait_seconds_total", "queue_steps"):
            assert labels(f"overlord_rank_{name}", "rank") == {"0", "1"}
        for name in ("rss", "pss", "private", "shared"):
            processes = labels(f"overlord_process_{name}_bytes", "process")
            assert processes == {"node", "loaders-0", "constructors-0", "rank-0", "rank-1"}
        assert sum(value for _, value in families["overlord_source_rows_total"][1]) > 0


@pytest.mark.parametrize(
    "address", ["0.0.0.0:9400", "9400", ":9400", "10.0.0.1:1", "[::]:1", "host:1", "127.0.0.1:x"]
)
def test_only_this_host_is_served(address: str) -> None:
    with pytest.raises(ConfigError, match="this host alone"):
        MetricsServer(address, lambda: "")


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


@contextmanager
def served(address: str, directory: str) -> Iterator[MetricsServer]:
    server = MetricsServer(address, lambda: figures_of(directory))
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()


def test_metrics_are_served_while_the_node_lives_and_after(tmp_path: Path) -> None:
    path = tmp_path / "metrics"
    with running(tmp_path) as (started, directory):
        with served("127.0.0.1:0", directory) as server:
            with urllib.request.urlopen(server.address) as answer:
                assert answer.headers["Content-Type"] == CONTENT_TYPE
                assert "overlord_serving" in parsed(answer.read().decode())
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(server.address + "/other")
        with served(f"unix:{path}", directory):
            assert path.stat().st_mode & 0o777 == 0o600

            def up() -> float:
                connection = UnixConnection(str(path))
                connection.request("GET", "/metrics")
                families = parsed(connection.getresponse().read().decode())
                connection.close()
                return families["overlord_up"][1][0][1]

            assert up() == 1
            for trainer in started:
                trainer.kill()
            in_time(lambda: up() == 0, "the node is not up any more")
    assert not path.exists()


def test_the_node_serves_its_own_metrics_where_asked(tmp_path: Path, free_port: int) -> None:
    port = free_port
    with running(tmp_path, runtime={"metrics": {"socket": True, "port": port}}) as (_, directory):
        in_time(lambda: all_told(directory), "all have told of their work")
        connection = UnixConnection(f"{directory}/metrics")
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert answer.headers["Content-Type"] == CONTENT_TYPE
        families = parsed(answer.read().decode())
        connection.close()
        assert {labels["rank"] for labels, _ in families["overlord_rank_steps_total"][1]} == {
            "0",
            "1",
        }
        assert families["overlord_process_pss_bytes"][1]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
            assert set(parsed(page.read().decode())) == set(families)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/other")
        assert listening_of(node_of(directory)) == {("127.0.0.1", port)}


def test_a_node_opens_no_door_unasked(tmp_path: Path) -> None:
    with running(tmp_path) as (_, directory):
        assert not Path(directory, "metrics").exists()
        assert listening_of(node_of(directory)) == set()


def node_of(directory: str) -> int:
    pid: int = ask(directory)["pid"]
    return pid


def listening_of(pid: int) -> set[tuple[str, int]]:
    """Addresses that a process listens on over TCP."""
    own = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            own.add(os.readlink(entry))
    found = set()
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and f"socket:[{words[9]}]" in own:
            host, port = words[1].split(":")
            found.add((socket.inet_ntoa(bytes.fromhex(host)[::-1]), int(port, 16)))
    return found


def test_a_socket_that_can_be_seen_can_be_connected_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "metrics"
    seen_before = []

    def listen(server: socketserver.UnixStreamServer) -> None:
        seen_before.append(path.exists())
        server.socket.listen(1)

    monkeypatch.setattr(socketserver.UnixStreamServer, "server_activate", listen)
    with MetricsServer(f"unix:{path}", lambda: ""):
        assert seen_before == [False]
        assert [entry.name for entry in tmp_path.iterdir()] == ["metrics"]
    assert not list(tmp_path.iterdir())


def test_the_command_serves_metrics(tmp_path: Path) -> None:
    path = tmp_path / "metrics"
    with running(tmp_path) as (_, directory):
        command = [sys.executable, "-m", "overlord", "top", directory]
        process = subprocess.Popen([*command, "--serve-metrics", f"unix:{path}"])
        try:
            in_time(path.exists, "the socket is there")
            connection = UnixConnection(str(path))
            connection.request("GET", "/metrics")
            assert "overlord_rank_steps_total" in connection.getresponse().read().decode()
            connection.close()
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait() == 130
        assert not path.exists()


# --- Exposed wait ---------------------------------------------------------------------------------


def test_a_long_step_hides_the_production(tmp_path: Path) -> None:
    """While the trainer computes, its next step is made and comes, though nobody asks for it."""
    config, _ = small_job(tmp_path, steps=100_000)
    import overlord as ol

    with ol.job(config).train(engine="processes") as loader:
        steps, waits = loader.steps(), []
        for _ in range(30):
            before = loader.wait_seconds()
            next(steps)
            waits.append(loader.wait_seconds() - before)
            in_time(lambda: loader.status()["clients"][0]["queue"] > 0, "the next step is there")
        cold, *warm = waits
        assert sorted(warm)[len(warm) // 2] < cold / 10, "what is there is not waited for"


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_a_wait_is_counted(tmp_path: Path, engine: str) -> None:
    import overlord as ol

    config, _ = small_job(tmp_path, steps=3)
    with ol.job(config).train(engine=engine) as loader:
        begin = time.perf_counter()
        next(loader)  # nothing can be ready yet
        assert 0 < loader.wait_seconds() < time.perf_counter() - begin
        assert loader.status()["clients"][0]["wait_ns"] == round(loader.wait_seconds() * 1e9)


def test_unprotected_slots_are_named() -> None:
    snapshot = {"shadowed": 3, "unprotected": 0, "promotions": 2, "shadow_bytes": 2000}
    assert shadow_text(snapshot).plain == "shadows: of 3 slots, 2 kB held; 2 promoted"
    shown = shadow_text(snapshot | {"shadowed": 1, "unprotected": 2})
    assert shown.plain.endswith("2 slots unprotected")
    assert shown.style == "yellow"
