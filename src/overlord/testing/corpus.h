// Tiny corpora whose every token can be computed again: token = hash(source, document, position).
// In memory, as {uri -> bytes}: put them into a simulated store, or write them to disk.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/model/element.h"

namespace overlord::testing {

using Files = std::map<std::string, std::string>;

struct CorpusSpec {
  std::string source = "demo";
  std::string directory =
      "mem:/corpus";  // of the URIs; shards are <directory>/<source>-00000.<ext>
  uint32_t shards = 2;
  uint32_t documents = 50;  // per shard
  uint32_t least_tokens = 1;
  uint32_t most_tokens = 200;
  uint32_t vocabulary = 1000;
  model::Element element = model::Element::kU16;  // Megatron
};

// `document` counts over all shards of the source, in the order of the shards.
uint32_t document_tokens(const CorpusSpec& spec, uint64_t document);
uint32_t token_at(const CorpusSpec& spec, uint64_t document, uint32_t position);
std::vector<uint32_t> tokens_of(const CorpusSpec& spec, uint64_t document);
// The document as text of one letter per token, for the tokenizer of kind `bytes`: token i is
// text[i].
std::string text_of(const CorpusSpec& spec, uint64_t document);

// .bin and .idx of every shard. The first documents of a shard have two sequences, as some do.
Files megatron_corpus(const CorpusSpec& spec);
// {"text": ...} or {"tokens": [...]} per line.
Files jsonl_text_corpus(const CorpusSpec& spec);
Files jsonl_token_corpus(const CorpusSpec& spec);

// The URIs to list in a Source: all files but the .idx.
std::vector<std::string> shard_uris(const Files& files);

// The .idx of a .bin with these sequence lengths, written from the format's description alone.
// `boundaries` is the document index (it starts with 0); empty: every sequence is a document.
std::string megatron_idx(const std::vector<int32_t>& lengths, uint8_t dtype_code,
                         size_t element_bytes, std::vector<int64_t> boundaries = {});

}  // namespace overlord::testing
