#include "overlord/testing/corpus.h"

#include <cstdio>

#include "overlord/base/bytes.h"
#include "overlord/base/hash.h"

namespace overlord::testing {
namespace {

uint64_t mixed(const CorpusSpec& spec, uint64_t document, uint64_t position) {
  const uint64_t words[2] = {document, position};
  return hash64(words, sizeof words, hash64(spec.source.data(), spec.source.size()));
}

std::string shard_uri(const CorpusSpec& spec, uint32_t shard, const char* extension) {
  char number[16];
  std::snprintf(number, sizeof number, "-%05u", shard);
  return spec.directory + "/" + spec.source + number + extension;
}

uint8_t dtype_code(model::Element element) {
  switch (element) {
    case model::Element::kU8:
      return 1;
    case model::Element::kI8:
      return 2;
    case model::Element::kI16:
      return 3;
    case model::Element::kI32:
      return 4;
    case model::Element::kI64:
      return 5;
    case model::Element::kF64:
      return 6;
    case model::Element::kF32:
      return 7;
    case model::Element::kU16:
      return 8;
    default:
      return 0;  // Megatron has no code for it
  }
}

void put_little_endian(uint64_t value, size_t width, std::string* out) {
  for (size_t i = 0; i < width; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

template <typename Line>
Files jsonl_corpus(const CorpusSpec& spec, Line line) {
  Files files;
  for (uint32_t shard = 0; shard < spec.shards; ++shard) {
    std::string& bytes = files[shard_uri(spec, shard, ".jsonl")];
    for (uint32_t i = 0; i < spec.documents; ++i) {
      bytes += line(uint64_t{shard} * spec.documents + i) + "\n";
    }
  }
  return files;
}

}  // namespace

uint32_t document_tokens(const CorpusSpec& spec, uint64_t document) {
  const uint64_t span = uint64_t{spec.most_tokens} - spec.least_tokens + 1;
  return spec.least_tokens + static_cast<uint32_t>(mixed(spec, document, ~uint64_t{0}) % span);
}

uint32_t token_at(const CorpusSpec& spec, uint64_t document, uint32_t position) {
  return static_cast<uint32_t>(mixed(spec, document, position) % spec.vocabulary);
}

std::vector<uint32_t> tokens_of(const CorpusSpec& spec, uint64_t document) {
  std::vector<uint32_t> tokens(document_tokens(spec, document));
  for (uint32_t i = 0; i < tokens.size(); ++i) tokens[i] = token_at(spec, document, i);
  return tokens;
}

std::string text_of(const CorpusSpec& spec, uint64_t document) {
  std::string text(document_tokens(spec, document), 'a');
  for (uint32_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<char>('a' + mixed(spec, document, i) % 26);
  }
  return text;
}

std::string megatron_idx(const std::vector<int32_t>& lengths, uint8_t code, size_t element_bytes,
                         std::vector<int64_t> boundaries) {
  if (boundaries.empty()) {
    for (size_t i = 0; i <= lengths.size(); ++i) boundaries.push_back(static_cast<int64_t>(i));
  }
  std::string idx("MMIDIDX\0\0", 9);
  put_little_endian(1, 8, &idx);
  put_little_endian(code, 1, &idx);
  put_little_endian(lengths.size(), 8, &idx);
  put_little_endian(boundaries.size(), 8, &idx);
  for (const int32_t length : lengths) put_little_endian(static_cast<uint32_t>(length), 4, &idx);
  uint64_t pointer = 0;
  for (const int32_t length : lengths) {
    put_little_endian(pointer, 8, &idx);
    pointer += static_cast<uint64_t>(length) * element_bytes;
  }
  for (const int64_t boundary : boundaries) {
    put_little_endian(static_cast<uint64_t>(boundary), 8, &idx);
  }
  return idx;
}

Files megatron_corpus(const CorpusSpec& spec) {
  const size_t width = model::element_bytes(spec.element);
  Files files;
  for (uint32_t shard = 0; shard < spec.shards; ++shard) {
    std::string& bin = files[shard_uri(spec, shard, ".bin")];
    std::vector<int32_t> lengths;
    std::vector<int64_t> boundaries = {0};
    for (uint32_t i = 0; i < spec.documents; ++i) {
      const std::vector<uint32_t> tokens = tokens_of(spec, uint64_t{shard} * spec.documents + i);
      for (const uint32_t token : tokens) put_little_endian(token, width, &bin);
      const auto count = static_cast<int32_t>(tokens.size());
      if (i < 3 && count > 1) {
        lengths.push_back(count / 2);
        lengths.push_back(count - count / 2);
      } else {
        lengths.push_back(count);
      }
      boundaries.push_back(static_cast<int64_t>(lengths.size()));
    }
    files[shard_uri(spec, shard, ".idx")] =
        megatron_idx(lengths, dtype_code(spec.element), width, boundaries);
  }
  return files;
}

Files jsonl_text_corpus(const CorpusSpec& spec) {
  return jsonl_corpus(
      spec, [&](uint64_t document) { return "{\"text\": \"" + text_of(spec, document) + "\"}"; });
}

Files jsonl_token_corpus(const CorpusSpec& spec) {
  return jsonl_corpus(spec, [&](uint64_t document) {
    std::string line = "{\"tokens\": [";
    for (const uint32_t token : tokens_of(spec, document)) {
      if (line.back() != '[') line += ", ";
      line += std::to_string(token);
    }
    return line + "]}";
  });
}

std::vector<std::string> shard_uris(const Files& files) {
  std::vector<std::string> uris;
  for (const auto& [uri, bytes] : files) {
    if (!uri.ends_with(".idx")) uris.push_back(uri);
  }
  return uris;
}

}  // namespace overlord::testing
