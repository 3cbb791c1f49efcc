"""Data-parallel training that goes on when a rank is killed, and takes it in again when it is back.

    pip install overlord-data torch
    python examples/train_survivors.py --ranks 4 --kill-at 8 --back-at 14

The data plane lives through both. Whoever supervises the ranks (here the process that you start;
torchft, a launcher) says who is there by writing `members-N.json`. What a trainer has to do:

1. notice that a collective has failed, or that there is a newer list of members;
2. make a process group of the members, and agree on the first step that not all have finished;
3. take the weights of one that has finished the most;
4. `loader.rebuild(mesh, step, ranks=members)`: that step comes again, dealt to who is there.

What a step holds does not change, so the losses are those of a run that nobody left.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

import overlord as ol


class Members:
    """Who is there, as the supervisor has said last; and their process group."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.folder, self.rank, self.number, self.ranks = folder, rank, -1, [0]

    def newest(self) -> int:
        return max(int(path.stem.partition("-")[2]) for path in self.folder.glob("members-*.json"))

    def join(self, after: int) -> None:
        """Meet the others in a group of the newest list behind `after` that has this rank."""
        import torch.distributed as dist

        while True:
            number = self.newest()
            ranks = json.loads((self.folder / f"members-{number}.json").read_text())
            if number > after and self.rank in ranks:
                break
            time.sleep(0.02)
        if dist.is_initialized():
            dist.destroy_process_group()
        self.number, self.ranks = number, ranks
        dist.init_process_group(
            "gloo",
            init_method=f"file://{self.folder}/group-{number}",
            rank=ranks.index(self.rank),
            world_size=len(ranks),
            timeout=timedelta(seconds=60),
        )


def agree(model: Any, done: int) -> int:
    """Steps that somebody has finished, and everybody has from now on."""
    import torch
    import torch.distributed as dist

    counts = [torch.zeros(1, dtype=torch.long) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, torch.tensor([done]))
    furthest = max(range(len(counts)), key=lambda place: int(counts[place]))
    for parameter in model.parameters():
        dist.broadcast(parameter.data, furthest)
    return int(counts[furthest])


def train(told: dict[str, Any]) -> None:
    """What a rank runs."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn import functional

    torch.set_num_threads(1)
    torch.manual_seed(1)
    folder, rank = Path(told["folder"]), told["rank"]
    job = ol.job(told["config"], mesh=ol.mesh(dp=told["ranks"]))
    loader = job.train(rank, engine="processes")
    words = job.config.vocabulary
    model = nn.Sequential(nn.Embedding(words, 32), nn.Tanh(), nn.Linear(32, words))
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    members, done = Members(folder, rank), 0
    members.join(-1)
    if members.number > 0:  # others have gone on meanwhile
        done = agree(model, done)
        loader.rebuild(ol.mesh(dp=len(members.ranks)), done, ranks=members.ranks)

    def step_of(batches: list[ol.Microbatch]) -> bool:
        """Train a step. False: it counts, and a newer list of members is there."""
        total = torch.zeros(2)
        for batch in batches:
            fields = batch.torch()
            losses = functional.cross_entropy(
                model(fields["tokens"].long()).flatten(0, 1),
                fields["targets"].long().flatten(),
                reduction="none",
            )
            loss = (losses * fields["loss_weights"].flatten()).sum() / batch.step_target_tokens
            loss.backward()
            total[0] += loss.detach()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        total[1] = members.newest() > members.number  # all turn to it behind the same step
        dist.all_reduce(total)
        optimizer.step()
        if members.ranks[0] == rank:
            with open(folder / "losses.jsonl", "a") as file:
                file.write(json.dumps([batches[0].step, float(total[0]), members.ranks]) + "\n")
        return not total[1]

    for batches in loader.steps():
        if batches[0].step == told["kill_at"] and rank == told["victim"]:
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        try:
            goes_on = step_of(batches)
            done = batches[0].step + 1
        except RuntimeError:  # a member is gone
            goes_on = False
        if not goes_on and done < job.config.steps:
            members.join(members.number)
            done = agree(model, done)
            loader.rebuild(ol.mesh(dp=len(members.ranks)), done, ranks=members.ranks)
    loader.close()


def say_who(folder: Path, number: int, ranks: list[int]) -> None:
    (folder / "members.new").write_text(json.dumps(ranks))
    (folder / "members.new").rename(folder / f"members-{number}.json")


def steps_done(folder: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return len((folder / "losses.jsonl").read_text().splitlines())
    return 0


def supervise(args: argparse.Namespace, config: str) -> None:
    """Start the ranks, say who is there, and start the one again that dies."""
    folder = args.folder.resolve()
    for old in [*folder.glob("members*"), *folder.glob("group-*"), *folder.glob("losses.jsonl")]:
        old.unlink()

    def start(rank: int, kill_at: int) -> subprocess.Popen[bytes]:
        told = {"folder": str(folder), "rank": rank, "ranks": args.ranks, "config": config}
        told |= {"kill_at": kill_at, "victim": args.victim}
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(args.ranks)}
        environment |= {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(args.ranks)}
        return subprocess.Popen([sys.executable, __file__, json.dumps(told)], env=environment)

    everybody = list(range(args.ranks))
    say_who(folder, 0, everybody)
    workers = [start(rank, args.kill_at) for rank in everybody]
    if 0 <= args.kill_at < args.steps:
        workers[args.victim].wait()
        print(f"rank {args.victim} was killed; {args.ranks - 1} go on", flush=True)
        say_who(folder, 1, [rank for rank in everybody if rank != args.victim])
        while steps_done(folder) < args.back_at:
            time.sleep(0.02)
        workers[args.victim] = start(args.victim, -1)
        say_who(folder, 2, everybody)
    failed = [rank for rank, worker in enumerate(workers) if worker.wait() != 0]
    for line in (folder / "losses.jsonl").read_text().splitlines():
        step, loss, ranks = json.loads(line)
        print(f"step {step:4d}  loss {loss:.4f}  ranks {ranks}")
    if failed:
        sys.exit(f"ranks {failed} have failed")


def prepare_config(args: argparse.Namespace) -> str:
    """A small corpus, and a job over it."""
    if not (args.folder / "mix.yaml").exists():
        command = [sys.executable, "-m", "overlord", "init", str(args.folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    config = yaml.safe_load((args.folder / "mix.yaml").read_text())
    config |= {"job": "survivors", "context": 128, "bins": 12, "steps": args.steps}
    path = args.folder / "survivors.yaml"
    path.write_text(yaml.safe_dump(config))
    return str(path.resolve())


def main() -> None:
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        return train(json.loads(sys.argv[1]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("tiny-survivors"), help="data, losses")
    parser.add_argument("--ranks", type=int, default=4, help="12 bins are dealt to them")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--victim", type=int, default=2, help="the rank that is killed")
    parser.add_argument("--kill-at", type=int, default=8, help="in this step; -1: in none")
    parser.add_argument("--back-at", type=int, default=14, help="after so many steps")
    args = parser.parse_args()
    supervise(args, prepare_config(args))


if __name__ == "__main__":
    main()
