"""Made-up words with Zipf frequencies, and a byte-level BPE tokenizer that knows each as one token.

Words are one to three syllables. The merges join letters to syllables, a space and a syllable to a
word start, and word starts with further syllables to words, so a text of n words has n tokens.
Words of captions and the tokens around media have ids behind those that generated tokens may have.
"""

from __future__ import annotations

import json
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from overlord._src.corpus.sampling import Words64, scramble
from overlord._src.corpus.scenes import scene_words
from overlord._src.corpus.tunes import tune_words

PAD_TOKEN = 0
EOD_TOKEN = 1
FIRST_TOKEN = 2  # generated token ids start here: the special ones never occur inside a document
VOCABULARY = 16_384  # generated token ids end here
MEDIA_TOKENS = {
    "<|image_begin|>": VOCABULARY,
    "<|image_pad|>": VOCABULARY + 1,
    "<|image_end|>": VOCABULARY + 2,
    "<|audio_begin|>": VOCABULARY + 3,
    "<|audio_pad|>": VOCABULARY + 4,
    "<|audio_end|>": VOCABULARY + 5,
}
FIRST_CAPTION_WORD = VOCABULARY + 16
TOKENIZER_VOCABULARY = VOCABULARY + 128  # ids of the tokenizer end here
SPECIAL = ("<|pad|>", "<|endoftext|>")
SPACE = "Ġ"  # byte-level BPE writes a space as this letter
_CONSONANTS, _VOWELS = "bcdfghjklmnpqrstvwxz", "aeiou"
_LONG_WORDS = 1_800
_MARK_SHARE = 14  # one unit in so many ends a sentence


def _byte_letters() -> list[str]:
    """The letter that stands for each byte in byte-level BPE (as GPT-2 has it)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in plain}
    other = (chr(256 + index) for index in range(256 - len(plain)))
    return [letters[byte] if byte in letters else next(other) for byte in range(256)]


@cache
def word_list() -> list[str]:
    """All words, most frequent first: short ones lead, the rest in a fixed mixed order."""
    syllables = ["".join(pair) for pair in product(_CONSONANTS, _VOWELS)]
    pairs = ["".join(pair) for pair in product(syllables, syllables)]
    order = np.argsort(scramble(np.arange(len(pairs), dtype=np.uint64)), kind="stable")
    mixed = [pairs[index] for index in order]
    long_words = [
        word + syllables[(index * 37) % len(syllables)]
        for index, word in enumerate(mixed[:_LONG_WORDS])
    ]
    return syllables + mixed + long_words


@cache
def _unit_bounds() -> Words64:
    """Cumulative integer frequencies of the units: the sentence mark, then the words by rank."""
    ranks = range(1, len(word_list()) + 1)
    words = [2**40 // (10 * rank + 27) for rank in ranks]
    mark = sum(words) // (_MARK_SHARE - 1)
    return np.cumsum(np.array([mark, *words], dtype=np.uint64))


def draw_units(values: Words64, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Unit numbers (0: sentence mark, n: word n - 1) of random values; rows start with a word."""
    bounds = _unit_bounds()
    units: npt.NDArray[np.int64] = np.searchsorted(bounds, values % bounds[-1], side="right")
    begins = (np.cumsum(counts) - counts)[counts > 0]
    units[begins] = np.maximum(units[begins], 1)
    return units


def build_texts(
    units: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], mark: str
) -> list[str]:
    """The text of every row."""
    table = np.array([mark, *(" " + word for word in word_list())], dtype=object)
    texts = []
    end = 0
    for count in counts.tolist():
        begin, end = end, end + count
        texts.append("".join(table[units[begin:end]].tolist())[1:])
    return texts


def tokenizer_json() -> str:
    """The tokenizer as the text of a tokenizer.json."""
    vocabulary: dict[str, int] = {}

    def add(token: str) -> None:
        vocabulary.setdefault(token, len(vocabulary))

    for token in (*SPECIAL, *_byte_letters()):
        add(token)
    merges: list[list[str]] = []

    def merge(left: str, right: str) -> None:
        merges.append([left, right])
        add(left + right)

    for consonant, vowel in product(_CONSONANTS, _VOWELS):
        merge(consonant, vowel)
    words = word_list()
    for size in (2, 4, 6):
        for word in (word for word in words if len(word) == size):
            head, tail = SPACE + word[:-2], word[-2:]
            merge(head, tail)
    made_up = len(vocabulary)
    for word in (*scene_words(), *tune_words()):
        # No merge leads here: a word that is in the vocabulary is taken whole (ignore_merges).
        if SPACE + word not in vocabulary:
            vocabulary[SPACE + word] = FIRST_CAPTION_WORD + len(vocabulary) - made_up
    vocabulary.update(MEDIA_TOKENS)
    return json.dumps(_tokenizer_data(vocabulary, merges), ensure_ascii=False, indent=1)


def _tokenizer_data(vocabulary: dict[str, int], merges: list[list[str]]) -> dict[str, Any]:
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": True,
        "trim_offsets": True,
        "use_regex": True,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": vocabulary[token],
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token in (*SPECIAL, *MEDIA_TOKENS)
        ],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": True,
            "vocab": vocabulary,
            "merges": merges,
        },
    }
