"""Config files for the generated corpora, with the comments a new user needs."""

from __future__ import annotations

from overlord._src.corpus.words import EOD_TOKEN, PAD_TOKEN, VOCABULARY


def starter_config() -> str:
    """The config of `overlord init`."""
    return f"""\
# An Overlord job. `overlord schema` gives a JSON Schema for editors; every key is in
# docs/reference/config.md. Paths are relative to this file; ${{NAME}} is a variable of the
# environment.
job: starter
seed: 7                # decides every random choice; there is no default
context: 1024          # tokens of a sequence
bins: 16               # sequences of a step, over the whole job
align: 8               # documents are packed at lengths rounded up to this
vocabulary: {VOCABULARY}
pad_token: {PAD_TOKEN}
at_end: repeat         # what happens when a source has been read: repeat, drop or stop

mixture:
  unit: tokens         # what the weights count
  weights: {{web: 0.6, forum: 0.2, code: 0.2}}   # ratios; they need not sum to 1

packing: {{method: best_fit}}

tokenizers:
  bpe: {{path: data/tokenizer.json}}

sources:
  web:                 # text in Parquet
    files: data/web/*.parquet
    text: text
    tokenizer: bpe
    window_rows: 256   # text is tokenised a shuffle window at a time: small windows start fast
    eod: {EOD_TOKEN}
  forum:               # text in compressed JSON lines
    files: data/forum/*.jsonl.gz
    text: text
    tokenizer: bpe
    eod: {EOD_TOKEN}
  code:                # ready tokens in Megatron's .bin/.idx
    files: data/code/*.bin
    eod: {EOD_TOKEN}

delivery: {{microbatch_size: 1, cp_slicing: sequence_zigzag, token_dtype: int32}}
runtime: {{threads: 2, prefetch: 2}}             # never changes the stream

streams:
  valid:               # job.valid(): its own seed, its own state
    steps: 4
    mixture: {{weights: {{web: 1.0}}}}
"""


def demo_config() -> str:
    """The config of `overlord demo`: eight sources in all formats, two mixtures."""
    return f"""\
job: demo
seed: 20250414
context: 4096
bins: 16
align: 8
vocabulary: {VOCABULARY}
pad_token: {PAD_TOKEN}
at_end: repeat

mixture:
  unit: tokens
  stages:
    - steps: [0, 100]
      weights: {{web: 0.30, code: 0.10, forum: 0.08, papers: 0.07,
                chat: 0.05, captions: 0.10, law: 0.15, books: 0.15}}
    - steps: [100, null]
      weights: {{web: 0.15, code: 0.20, forum: 0.05, papers: 0.10,
                chat: 0.15, captions: 0.05, law: 0.15, books: 0.15}}

tokenizers:
  bpe: {{path: data/tokenizer.json}}

# Text is tokenised a shuffle window at a time, before its lengths can be planned with: small
# windows start fast (`overlord index --lengths` counts tokens once and for all instead).
sources:
  web: {{files: data/web/*.parquet, text: text, tokenizer: bpe,
    window_rows: 256, eod: {EOD_TOKEN}}}
  code: {{files: data/code/*.jsonl.zst, text: text, tokenizer: bpe,
    window_rows: 128, eod: {EOD_TOKEN}}}
  forum: {{files: data/forum/*.jsonl, text: text, tokenizer: bpe,
    window_rows: 256, eod: {EOD_TOKEN}}}
  papers: {{files: data/papers/*.jsonl.gz, text: text, tokenizer: bpe,
    window_rows: 16, eod: {EOD_TOKEN}}}
  chat: {{files: data/chat/*.parquet, tokens: input_ids, mask: loss_mask, eod: {EOD_TOKEN}}}
  captions: {{files: data/captions/*.parquet, tokens: input_ids, eod: {EOD_TOKEN}}}
  law: {{files: data/law/*.bin, eod: {EOD_TOKEN}}}
  books: {{files: data/books/*.bin, eod: {EOD_TOKEN}}}

delivery: {{microbatch_size: 1, cp_slicing: sequence_zigzag, token_dtype: int32}}
runtime: {{tokenizer_processes: 2}}
"""
