"""However a script ends, nothing is written to stderr that it has not written itself."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from warm_python import run_warm

PROLOGUE = """
import json, sys, warnings
import overlord as ol
warnings.simplefilter("ignore")
config, engine = json.loads(sys.argv[1]), sys.argv[2]
"""

# Each is what a script may look like when it ends. None closes what it opened.
WAYS = {
    "nothing started": "loader = ol.job(config).train(engine=engine)",
    "loader and batches alive": """
loader = ol.job(config).train(engine=engine)
batches = [next(loader) for _ in range(5)]
arrays = [batch.tokens for batch in batches]
state = batches[2].state
""",
    "several loaders": """
job = ol.job(config, mesh="dp=2")
loaders = job.train(ranks="all", engine=engine)
step = next(loaders.steps())
""",
    "generator alive": """
loader = ol.job(config).train(engine=engine)
steps = loader.steps()
held = next(steps)
""",
    "left in the middle of a loop": """
def train():
    for batch in ol.job(config).train(engine=engine):
        if batch.step == 1:
            sys.exit(0)
train()
""",
    "left while a generator is open": """
def stream():
    with ol.job(config).train(engine=engine) as loader:
        yield from loader
batches = stream()
for batch in batches:
    sys.exit(0)
""",
    "a ring of objects": """
class Trainer:
    def __init__(self):
        self.me = self
        self.loader = ol.job(config).train(engine=engine)
        self.batch = next(self.loader)
        self.fetch = lambda: next(self.loader)
Trainer().fetch()
trainer = Trainer()
""",
    "held by a module that outlives others": """
import builtins, functools
@functools.lru_cache
def loader():
    return ol.job(config).train(engine=engine)
builtins.kept = next(loader())
sys.kept = loader()
""",
    "held by a hook of the interpreter": """
loader = ol.job(config).train(engine=engine)
batch = next(loader)
sys.excepthook = lambda *what: loader
sys.displayhook = lambda value: batch
""",
    "an error that is kept": """
loader = ol.job(config).train(engine=engine)
try:
    for batch in loader:
        raise ValueError("kept")
except ValueError as error:
    kept = error
try:
    loader.load_state_dict({**loader.state_dict(), "step": 99})
except ol.StateMismatchError as error:
    refused = error
""",
    "a thread that reads": """
import threading
loader = ol.job(config).train(engine=engine)
thread = threading.Thread(target=lambda: [batch for batch in loader])
thread.start()
""",
    "a thread that is left behind": """
import contextlib, threading
loader = ol.job(config).train(engine=engine)
first, never = threading.Event(), threading.Event()
def read():
    for batch in loader:
        first.set()
        never.wait()
thread = threading.Thread(target=read, daemon=True)
thread.start()
first.wait()
""",
    "a thread that is left waiting for a batch": """
import contextlib, threading
loaders = ol.job({**config, "steps": None}, mesh="dp=2").train(ranks="all", engine=engine)
begun = threading.Event()
def read():  # the other rank never does: it comes to wait
    with contextlib.suppress(Exception):
        for batch in loaders[0]:
            if batch.step == 1:
                begun.set()
thread = threading.Thread(target=read, daemon=True)
thread.start()
begun.wait()
""",
    "a handler at the end": """
import atexit
loader = ol.job(config).train(engine=engine)
next(loader)
atexit.register(loader.close)
atexit.register(lambda: next(loader))
""",
    "a forked child": """
import os
loader = ol.job(config).train(engine=engine)
batch = next(loader)
child = os.fork()
if child == 0:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
next(loader)
""",
    "the planner alone": """
job = ol.job(config)
cursor = job.open_stream().cursor()
plans = [cursor.next(), job.plan(3), job.summary_buffer()]
""",
    "torch": """
import torch
loader = ol.job(config).train(engine=engine)
tensors = [next(loader).torch() for _ in range(3)]
""",
}
EMBEDDED_WAYS = {
    "functions of a strategy": """
def cost(columns):
    return columns["tokens"]
def strategy(graph, tree):
    return graph.tokens().cost(cost, version=1).balance().plan()
loaders = ol.job(config, mesh="dp=2", strategy=strategy).train(ranks="all")
held = next(loaders.steps())
cursor = ol.job(config, mesh="dp=2", strategy=strategy).open_stream().cursor()
plan = cursor.next()
""",
    "transforms on threads": """
@ol.transform(lane="thread", version=1)
def upper(rows):
    return [row.upper() for row in rows]
path = config["index_dir"] + "/a.jsonl"
import os
os.makedirs(config["index_dir"], exist_ok=True)
with open(path, "w") as file:
    for number in range(200):
        print(json.dumps({"t": f"text {number} " * 9}), file=file)
config["sources"] = {"t": {"files": path, "text": "t", "tokenizer": "bytes",
                           "transform": "upper"}}
config["mixture"] = {"weights": {"t": 1}}
loader = ol.job(config, transforms={"upper": upper}).train()
held = [next(loader) for _ in range(3)]
""",
}


def run(code: str, config: dict[str, Any], engine: str) -> subprocess.CompletedProcess[str]:
    return run_warm(PROLOGUE + code, [json.dumps(config), engine], timeout=50)


@pytest.mark.parametrize("engine", ["embedded", "processes"])
@pytest.mark.parametrize("way", WAYS)
def test_a_script_ends_in_silence(config: dict[str, Any], way: str, engine: str) -> None:
    ended = run(WAYS[way], config, engine)
    assert (ended.stderr, ended.returncode) == ("", 0)


@pytest.mark.parametrize("way", EMBEDDED_WAYS)
def test_a_script_with_functions_of_its_own_ends_in_silence(
    config: dict[str, Any], way: str
) -> None:
    ended = run(EMBEDDED_WAYS[way], config, "embedded")
    assert (ended.stderr, ended.returncode) == ("", 0)


FAILING = """
def train():
    loader = ol.job(config).train(engine=engine)
    steps = loader.steps()
    for batches in steps:
        raise ValueError("of the trainer")
train()
"""


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_a_script_that_fails_says_why_and_no_more(
    config: dict[str, Any], tmp_path: Path, engine: str
) -> None:
    ended = run(FAILING, config, engine)
    lines = ended.stderr.splitlines()
    assert ended.returncode == 1 and lines[0].startswith("Traceback")
    assert lines[-1] == "ValueError: of the trainer"
    assert all(line.startswith("  ") for line in lines[1:-1])
