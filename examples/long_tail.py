"""A job with a long tail: a few documents of up to 256 K tokens among thousands of short ones.

`python examples/long_tail.py DIR` makes `DIR/job.yaml` and its data, 16 M tokens in one Parquet
file. Its strategy gives every document its own number of ranks; what it does on 128 of them:
`overlord plan DIR/job.yaml --mesh dp=8,cp=16 --step 1 --draw`.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CONTEXT = 262_144
JOB = f"""\
job: long_tail
seed: 7
context: {CONTEXT}
bins: 8
align: 64
vocabulary: 16384
at_end: repeat
mixture: {{weights: {{long: 1}}}}
sources:
  long: {{files: long.parquet, format: parquet, tokens: tokens}}
strategy:
  distribute: {{axis: cp}}
  hybrid: {{model: llama12b, capacity: 8192}}
"""


def make(folder: Path, documents: int = 2600) -> Path:
    """Writes the data and the config; the path of the config."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = np.random.default_rng(0).lognormal(np.log(1900), 1.6, documents)
    lengths = np.clip(drawn, 16, CONTEXT).astype(np.int32)
    lengths[lengths.argmax()] = CONTEXT
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    tokens = pa.ListArray.from_arrays(pa.array(ends), pa.array(np.ones(ends[-1], np.int32)))
    pq.write_table(pa.table({"tokens": tokens}), folder / "long.parquet", row_group_size=256)
    config = folder / "job.yaml"
    config.write_text(JOB)
    return config


if __name__ == "__main__":
    print(make(Path(sys.argv[1] if len(sys.argv) > 1 else "long_tail")))
