"""The demonstration corpus: deterministic files in every format, shaped like real data."""

from overlord._src.corpus.generate import Corpus, ensure_corpus
from overlord._src.corpus.parameters import DEMO, STARTER, CorpusParameters, SourceShape

__all__ = ["DEMO", "STARTER", "Corpus", "CorpusParameters", "SourceShape", "ensure_corpus"]
