// Indexing of Megatron shards: the .idx is streamed, so its size does not matter.
#include <algorithm>
#include <cstring>
#include <vector>

#include "overlord/base/bytes.h"
#include "overlord/base/hash.h"
#include "overlord/columnar/formats/megatron/megatron_files.h"
#include "overlord/columnar/formats/tokens/document_blocks.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

constexpr std::string_view kMagic{"MMIDIDX\0\0", 9};
constexpr uint64_t kVersion = 1;
constexpr uint64_t kHeaderBytes = 9 + 8 + 1 + 8 + 8;
constexpr uint64_t kStreamBytes = 1 << 20;

struct Header {
  Element element = Element::kI32;
  uint64_t sequences = 0;
  uint64_t boundaries = 0;  // length of the document index: documents + 1
};

// One array of the .idx, read forward in pieces.
template <typename T>
class ArrayStream {
 public:
  ArrayStream(const ShardJob& job, uint64_t offset, uint64_t count)
      : job_(job), offset_(offset), left_(count) {}

  Result<T> next() {
    if (at_ == values_.size()) OVERLORD_RETURN_IF_ERROR(fill());
    return values_[at_++];
  }
  uint64_t hash() const { return hash_; }

 private:
  Status fill() {
    const uint64_t count = std::min(left_, kStreamBytes / sizeof(T));
    if (count == 0) return internal_error("read past the end of an .idx array");
    OVERLORD_TRY(const runtime::Bytes bytes, job_.read(job_.companion, offset_, count * sizeof(T)));
    values_.resize(count);
    std::memcpy(values_.data(), bytes.data, bytes.size);  // arrays of the .idx are not aligned
    hash_ = hash64(bytes.data, bytes.size, hash_);
    at_ = 0;
    offset_ += bytes.size;
    left_ -= count;
    return {};
  }

  const ShardJob& job_;
  uint64_t offset_;
  uint64_t left_;
  std::vector<T> values_;
  size_t at_ = 0;
  uint64_t hash_ = 0;
};

Status idx_error(const ShardJob& job, const std::string& what, Code code = Code::kBadData) {
  return job.error(runtime::quote(job.companion.uri) + " " + what, code);
}

Result<Element> element_of_code(const ShardJob& job, uint8_t code) {
  switch (code) {
    case 1:
      return Element::kU8;
    case 2:
      return Element::kI8;
    case 3:
      return Element::kI16;
    case 4:
      return Element::kI32;
    case 5:
      return Element::kI64;
    case 8:
      return Element::kU16;
    case 6:
    case 7:
      return idx_error(job,
                       "holds floating point numbers (dtype code " + std::to_string(code) +
                           "); tokens must be integers",
                       Code::kInvalidArgument);
    default:
      return idx_error(job, "has unknown dtype code " + std::to_string(code));
  }
}

Result<Header> read_header(const ShardJob& job) {
  const uint64_t size = job.companion.fingerprint.size_bytes;
  if (size < kHeaderBytes) return idx_error(job, "is too short for a Megatron index");
  OVERLORD_TRY(const runtime::Bytes bytes, job.read(job.companion, 0, kHeaderBytes));
  ByteReader reader(std::string_view(bytes.data, bytes.size));
  if (reader.raw(kMagic.size()) != kMagic) {
    return idx_error(job, "has no Megatron magic (MMIDIDX); is it another format?");
  }
  const uint64_t version = reader.u64();
  if (version != kVersion) {
    return idx_error(job, "is of version " + std::to_string(version) + ", only 1 is known",
                     Code::kVersionMismatch);
  }
  Header header;
  OVERLORD_TRY(header.element, element_of_code(job, reader.u8()));
  header.sequences = reader.u64();
  header.boundaries = reader.u64();
  // The counts come from the file: bound them by its size before any arithmetic.
  if (header.sequences > size / 12 || header.boundaries > size / 8) {
    return idx_error(job, "claims more sequences or documents than it has bytes for");
  }
  const uint64_t needed = kHeaderBytes + header.sequences * 12 + header.boundaries * 8;
  if (size == needed + header.sequences && header.sequences > 0) {
    return idx_error(job, "is multimodal (it has sequence modes); only text is supported",
                     Code::kInvalidArgument);
  }
  if (size != needed) {
    return idx_error(
        job, "has " + std::to_string(size) + " bytes, its header needs " + std::to_string(needed));
  }
  return header;
}

// Adds up the sequences of one document, which must lie back to back in the .bin.
Result<TokenDocument> read_document(const ShardJob& job, uint64_t row, uint64_t sequences,
                                    uint64_t width, ArrayStream<int32_t>* lengths,
                                    ArrayStream<int64_t>* pointers) {
  TokenDocument document;
  const uint64_t bin_bytes = job.file.fingerprint.size_bytes;
  const auto error = [&](const std::string& what) {
    return idx_error(job, "document " + std::to_string(row) + ": " + what);
  };
  for (uint64_t i = 0; i < sequences; ++i) {
    OVERLORD_TRY(const int32_t length, lengths->next());
    OVERLORD_TRY(const int64_t pointer, pointers->next());
    if (length < 0 || pointer < 0) return error("negative length or pointer");
    const auto offset = static_cast<uint64_t>(pointer);
    const uint64_t bytes = static_cast<uint64_t>(length) * width;
    if (offset > bin_bytes || bytes > bin_bytes - offset) {
      return error("points past the end of the .bin (offset " + std::to_string(offset) + ", " +
                   std::to_string(bytes) + " of " + std::to_string(bin_bytes) +
                   " bytes); is the .bin cut short?");
    }
    if (i == 0) document.offset = offset;
    if (offset != document.offset + document.tokens * width) {
      return error("its sequences are not contiguous in the .bin (sequence " + std::to_string(i) +
                   " at offset " + std::to_string(offset) + ")");
    }
    document.tokens += static_cast<uint64_t>(length);
  }
  return document;
}

}  // namespace

Result<std::string> megatron_bin_uri(const std::string& listed) {
  if (listed.ends_with(".bin")) return listed;
  if (listed.ends_with(".idx")) {
    return invalid_argument("list the .bin file or the prefix, not the index: " +
                            runtime::quote(listed));
  }
  return listed + ".bin";
}

Result<ShardPart> index_megatron_shard(const ShardJob& job) {
  OVERLORD_TRY(const Header header, read_header(job));
  const uint64_t width = element_bytes(header.element);
  ArrayStream<int32_t> lengths(job, kHeaderBytes, header.sequences);
  ArrayStream<int64_t> pointers(job, kHeaderBytes + header.sequences * 4, header.sequences);
  ArrayStream<int64_t> boundaries(job, kHeaderBytes + header.sequences * 12, header.boundaries);

  ShardPart part;
  part.entry.uri = job.file.uri;
  part.entry.fingerprint = job.file.fingerprint;
  part.companion = job.companion.fingerprint;
  DocumentBlocks documents(job, header.element, &part);
  uint64_t sequence = 0;
  for (uint64_t i = 0; i < header.boundaries; ++i) {
    OVERLORD_TRY(const int64_t boundary, boundaries.next());
    if (boundary < 0 || static_cast<uint64_t>(boundary) < sequence ||
        static_cast<uint64_t>(boundary) > header.sequences || (i == 0 && boundary != 0)) {
      return idx_error(job, "document index is not ascending from 0 to the sequence count (entry " +
                                std::to_string(i) + " is " + std::to_string(boundary) + ")");
    }
    if (i == 0) continue;
    OVERLORD_TRY(const TokenDocument document,
                 read_document(job, i - 1, static_cast<uint64_t>(boundary) - sequence, width,
                               &lengths, &pointers));
    sequence = static_cast<uint64_t>(boundary);
    documents.add(document);
  }
  if (sequence != header.sequences) {
    return idx_error(job, "document index ends at sequence " + std::to_string(sequence) + " of " +
                              std::to_string(header.sequences));
  }
  const uint64_t hashes[3] = {lengths.hash(), pointers.hash(), boundaries.hash()};
  part.scanned = hash64(hashes, sizeof hashes);
  return part;
}

}  // namespace overlord::columnar
