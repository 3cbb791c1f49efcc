"""Config files for the generated corpora, with the comments a new user needs."""

from __future__ import annotations

from overlord._src.corpus.words import EOD_TOKEN, MEDIA_TOKENS, PAD_TOKEN, TOKENIZER_VOCABULARY


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
vocabulary: {TOKENIZER_VOCABULARY}
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
    """The config of `overlord demo`: sources in all formats, with media; two mixtures."""
    left_out = set(_MEDIA_SOURCES) - set(_MEDIA_IN_STREAM)
    listed = [row for row in _DEMO_WEIGHTS if row[0] not in left_out]
    weights = [_weights({name: shares[stage] for name, *shares in listed}) for stage in (0, 1)]
    media = "".join(_MEDIA_SOURCES[name] for name in _MEDIA_IN_STREAM)
    return f"""\
job: demo
seed: 20250414
context: 4096
bins: 16
align: 8
vocabulary: {TOKENIZER_VOCABULARY}
pad_token: {PAD_TOKEN}
at_end: repeat

mixture:
  unit: tokens
  stages:
    - steps: [0, 100]
      weights: {{{weights[0]}}}
    - steps: [100, null]
      weights: {{{weights[1]}}}

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
{media}
delivery: {{microbatch_size: 1, cp_slicing: sequence_zigzag, token_dtype: int32}}
runtime: {{tokenizer_processes: 2}}
"""


def _weights(weights: dict[str, float]) -> str:
    """Weights in lines of five."""
    words = [f"{name}: {weight:.2f}" for name, weight in weights.items()]
    lines = [", ".join(words[at : at + 5]) for at in range(0, len(words), 5)]
    return (",\n" + " " * 16).join(lines)


# The media sources that are mixed into the demo, of those below.
_MEDIA_IN_STREAM = ("drawings", "tunes", "guides")

# Weights of each source in the first hundred steps, and later; they need not sum to 1.
_DEMO_WEIGHTS = (
    ("web", 0.28, 0.14),
    ("code", 0.10, 0.20),
    ("forum", 0.08, 0.05),
    ("papers", 0.07, 0.10),
    ("chat", 0.05, 0.15),
    ("captions", 0.08, 0.04),
    ("law", 0.15, 0.13),
    ("books", 0.15, 0.13),
    ("drawings", 0.04, 0.06),
    ("tunes", 0.02, 0.03),
    ("guides", 0.02, 0.03),
)

_IMAGE_TOKENS = (
    f"pad: {MEDIA_TOKENS['<|image_pad|>']}, before: {MEDIA_TOKENS['<|image_begin|>']}, "
    f"after: {MEDIA_TOKENS['<|image_end|>']}"
)
_AUDIO_TOKENS = (
    f"pad: {MEDIA_TOKENS['<|audio_pad|>']}, before: {MEDIA_TOKENS['<|audio_begin|>']}, "
    f"after: {MEDIA_TOKENS['<|audio_end|>']}"
)
# Pictures as Qwen2-VL takes them: a token stands for 28 x 28 pixels.
_IMAGE_TRANSFORM = """\
        transform:
          - smart_resize: {factor: 28, min_pixels: 3136, max_pixels: 50176}
          - normalise: {mean: [0.48145466, 0.4578275, 0.40821073],
                        std: [0.26862954, 0.26130258, 0.27577711]}
          - patchify: {layout: qwen2vl, patch: 14, temporal: 2, merge: 2}"""
_MEDIA_SOURCES = {
    "drawings": f"""\
  drawings:              # pictures with captions, in tars
    files: data/drawings/*.tar
    text: txt
    tokenizer: bpe
    window_rows: 128
    eod: {EOD_TOKEN}
    over_length: drop    # a document with media is never cut
    media:
      image:
        from: [jpg, png]
{_IMAGE_TRANSFORM}
        tokens: {{{_IMAGE_TOKENS}}}
""",
    "tunes": f"""\
  tunes:                 # sounds with captions, in tars
    files: data/tunes/*.tar
    text: txt
    tokenizer: bpe
    window_rows: 64
    eod: {EOD_TOKEN}
    over_length: drop
    media:
      audio:
        kind: audio
        from: wav
        transform: [mono, resample: {{rate: 16000}}, log_mel: {{mels: 80, tokens: qwen2_audio}}]
        tokens: {{{_AUDIO_TOKENS}}}
""",
    "guides": f"""\
  guides:                # texts with pictures between them, as lists in Parquet
    files: data/guides/*.parquet
    interleaved: {{texts: texts, images: images, marker: "<|image_pad|>", separator: " "}}
    tokenizer: bpe
    window_rows: 20
    eod: {EOD_TOKEN}
    over_length: drop
    media:
      image:
        from: images
        many: true
{_IMAGE_TRANSFORM}
        tokens: {{{_IMAGE_TOKENS}, place: text}}
""",
}
