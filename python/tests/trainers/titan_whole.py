"""torchtitan's whole Trainer over our stream, on a GPU: trained, killed inside a step, gone on.

Usage: titan_whole.py FOLDER
trains 20 steps, and the same once more with a death: the process ends in the second microbatch of
step 8, DCP may still be writing the checkpoint of step 7 beside it, and another process goes on
from the last one that was finished. Rows must be the same bit for bit and losses within 1e-5; the
first step's loss is that of its documents fed one by one through the same model.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from packed_job import packed_job
from torch.nn.attention.flex_attention import flex_attention
from torchtitan.components.checkpoint import CheckpointManager
from torchtitan.components.loss import IGNORE_INDEX, CrossEntropyLoss
from torchtitan.components.metrics import MetricsProcessor
from torchtitan.components.optimizer import default_adamw
from torchtitan.components.tokenizer import BaseTokenizer
from torchtitan.config import TrainingConfig
from torchtitan.config.configs import DebugConfig
from torchtitan.models.common.attention import FlexAttention
from torchtitan.models.common.config_utils import decoder_vocab_size
from torchtitan.models.llama3 import model_registry
from torchtitan.tools.logging import init_logger
from torchtitan.trainer import Trainer

import overlord as ol
from overlord import titan

STEPS, BINS, ROWS, CONTEXT = 20, 8, 2, 128  # flex attention has blocks of 128
DIES_AT = (8, 2)  # step and microbatch, from 1
# As it is compiled there, but not tuned, which takes minutes.
FlexAttention._compiled_flex_attn = torch.compile(flex_attention)


class NoTokenizer(BaseTokenizer):
    """Text was tokenised before."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        pass

    def __init__(self, config: Any, **_: Any) -> None:
        super().__init__()

    def encode(self, *_: Any, **__: Any) -> list[int]:
        raise NotImplementedError

    def decode(self, *_: Any, **__: Any) -> str:
        raise NotImplementedError

    def get_vocab_size(self) -> int:
        raise NotImplementedError


def config_of(folder: Path) -> Any:
    spec = model_registry("debugmodel")
    return Trainer.Config(
        model_spec=spec,
        dump_folder=str(folder),
        tokenizer=NoTokenizer.Config(),
        loss=CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(spec)),
        optimizer=default_adamw(lr=1e-3),
        training=TrainingConfig(
            local_batch_size=ROWS,
            global_batch_size=BINS,
            seq_len=CONTEXT,
            steps=STEPS,
            mixed_precision_param="float32",
            disable_cuda_graphs=True,
        ),
        dataloader=titan.DataLoader.Config(job=str(folder / "mix.yaml")),
        metrics=MetricsProcessor.Config(log_freq=1),
        checkpoint=CheckpointManager.Config(
            enable=True, interval=1, last_save_model_only=False, async_mode="async", keep_latest_k=0
        ),
        debug=DebugConfig(seed=1, deterministic=True),
    )


class Recorded(Trainer):  # type: ignore[misc]
    """It writes down the rows and the loss of every step, and dies where it is told to."""

    def __init__(self, config: Any, folder: Path, dies: bool) -> None:
        super().__init__(config)
        attempt = len(list(folder.glob("seen-*.jsonl")))
        self._file = (folder / f"seen-{attempt}.jsonl").open("w")
        self._dies = dies
        self._rows: list[str] = []
        self._alone = 0.0
        log = self.metrics_processor.log

        def heard(step: int, loss: float, *words: Any, **more: Any) -> None:
            self._loss = loss
            log(step, loss, *words, **more)

        self.metrics_processor.log = heard

    def train_step(self, data_iterator: Any) -> None:
        self._rows = []
        super().train_step(data_iterator)
        record = {"step": self.step, "rows": self._rows, "loss": self._loss}
        if self.step == 1:
            record["alone"] = self._alone
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()

    def forward_backward_step(self, *, input_dict: Any, labels: Any, **more: Any) -> Any:
        columns = (input_dict["input"], input_dict["positions"], labels)
        for row in zip(*(column.cpu() for column in columns), strict=True):
            packed = b"".join(part.numpy().tobytes() for part in row)
            self._rows.append(hashlib.blake2b(packed, digest_size=8).hexdigest())
        if self._dies and (self.step, len(self._rows) // ROWS) == DIES_AT:
            os._exit(9)
        if self.step == 1:
            counted = more["global_valid_tokens"]
            self._alone += self._summed_alone(*columns) / float(counted)
        return super().forward_backward_step(input_dict=input_dict, labels=labels, **more)

    def _summed_alone(self, tokens: Any, positions: Any, labels: Any) -> float:
        """The losses of the documents of a microbatch, each in a row of its own."""
        total, seen = 0.0, self.ntokens_seen
        for row, starts in enumerate((positions == 0).cpu()):
            begins = [*starts.nonzero().flatten().tolist(), CONTEXT]
            for begin, end in itertools.pairwise(begins):
                if bool((labels[row, begin:end] != IGNORE_INDEX).any()):
                    total += self._lost(tokens[row, begin:end], labels[row, begin:end])
        self.ntokens_seen = seen
        return total

    def _lost(self, tokens: Any, labels: Any) -> float:
        length = len(tokens)
        fed = torch.zeros(ROWS, CONTEXT, dtype=torch.long, device=self.device)
        wanted = torch.full_like(fed, IGNORE_INDEX)
        places = torch.arange(CONTEXT, device=self.device).repeat(ROWS, 1)
        places[:, length:] -= length
        fed[0, :length], wanted[0, :length] = tokens, labels
        inputs, wanted, more = self.post_dataloading_process(
            {"input": fed, "positions": places}, wanted
        )
        with torch.no_grad(), self.train_context():
            found = self.model_parts[0](inputs, **more)
        losses = torch.nn.functional.cross_entropy(
            found.flatten(0, 1).float(),
            wanted.flatten(),
            ignore_index=IGNORE_INDEX,
            reduction="sum",
        )
        return float(losses)


def one_rank(folder: Path, dies: bool) -> None:
    init_logger()
    trainer = Recorded(config_of(folder), folder, dies)
    try:
        trainer.train()
    finally:
        trainer.close()
        trainer.dataloader.close()
    torch.distributed.destroy_process_group()


def run(folder: Path, *, dies: bool = False) -> None:
    """A process of it, to its end or death."""
    environment = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29417"}
    words = [sys.executable, __file__, str(folder), "--rank", *(["--dies"] if dies else [])]
    ended = subprocess.run(words, env={**os.environ, **environment}).returncode
    assert ended == (9 if dies else 0), f"it ended with {ended}"


def prepared(folder: Path) -> Path:
    folder.mkdir(parents=True)
    config = packed_job(folder, context=CONTEXT, bins=BINS, steps=STEPS)
    (folder / "mix.yaml").write_text(json.dumps(config))  # JSON is YAML
    ol.job(config).open_stream()
    return folder


def records(folder: Path) -> list[list[dict[str, Any]]]:
    """Of every process of a run."""
    files = sorted(folder.glob("seen-*.jsonl"))
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def check(folder: Path) -> None:
    whole, cut = (prepared(folder / name) for name in ("whole", "cut"))
    run(whole)
    [expected] = records(whole)
    assert [record["step"] for record in expected] == list(range(1, STEPS + 1))
    assert len({row for record in expected for row in record["rows"]}) == STEPS * BINS
    first = expected[0]
    assert abs(first["loss"] / first["alone"] - 1) < 1e-5, f"{first['loss']} for {first['alone']}"
    assert expected[-1]["loss"] < first["loss"]
    run(cut, dies=True)
    run(cut)
    before, after = records(cut)
    assert len(before) == DIES_AT[0] - 1 and after[-1]["step"] == STEPS
    begins = after[0]["step"]
    assert 1 < begins <= DIES_AT[0], f"it went on with step {begins}"
    for record in before + after:
        wanted = expected[record["step"] - 1]
        assert record["rows"] == wanted["rows"], f"step {record['step']} has other rows"
        assert abs(record["loss"] / wanted["loss"] - 1) < 1e-5, (record["loss"], wanted["loss"])
    print(
        f"torchtitan's Trainer on {torch.cuda.get_device_name()}: {STEPS} steps, killed in step "
        f"{DIES_AT[0]}, went on with step {begins}; rows equal, losses within 1e-5; the first "
        f"{first['loss']:.6f}, of its documents alone {first['alone']:.6f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rank", action="store_true")
    parser.add_argument("--dies", action="store_true")
    told = parser.parse_args()
    if told.rank:
        one_rank(told.folder.absolute(), told.dies)
    else:
        check(told.folder.absolute())
