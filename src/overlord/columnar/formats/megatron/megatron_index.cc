// Indexing of Megatron shards: the .idx is streamed, so its size does not matter.
#include <algorithm>
#include <cstring>
#include <vector>

#include "overlord/base/bytes.h"
#include "overlord/base/hash.h"
#include "overlord/columnar/formats/megatron/megatron_files.h"
#include "overlord/columnar/formats/megatron/sequence_media.h"
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
  bool modes = false;       // every sequence has one
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
  header.modes = size == needed + header.sequences && header.sequences > 0;
  if (header.modes && element_bytes(header.element) != 4) {
    return idx_error(job, "is multimodal (it has sequence modes), and its numbers are not of 32 bits",
                     Code::kInvalidArgument);
  }
  if (!header.modes && !job.source->media.empty()) {
    return idx_error(job, "has text alone (no sequence modes), and `media` asks for more",
                     Code::kInvalidArgument);
  }
  if (size != needed && !header.modes) {
    return idx_error(
        job, "has " + std::to_string(size) + " bytes, its header needs " + std::to_string(needed));
  }
  return header;
}

struct Document {
  TokenDocument text;
  std::vector<PackedFile> files;
  std::string fault;  // why it cannot be used, though the files are whole
};

// The arrays of an .idx, read forward together.
class Sequences {
 public:
  Sequences(const ShardJob& job, const Header& header)
      : job_(job),
        header_(header),
        lengths_(job, kHeaderBytes, header.sequences),
        pointers_(job, kHeaderBytes + header.sequences * 4, header.sequences),
        modes_(job, kHeaderBytes + header.sequences * 12 + header.boundaries * 8,
               header.modes ? header.sequences : 0) {}

  // Adds up the text of one document, which must lie back to back in the .bin.
  Result<Document> document(uint64_t row, uint64_t sequences) {
    Document document;
    const uint64_t width = element_bytes(header_.element);
    bool begun = false;
    for (uint64_t i = 0; i < sequences; ++i) {
      OVERLORD_TRY(const PackedFile next, sequence(row));
      if (next.mode != 0) {
        document.files.push_back(next);
        continue;
      }
      if (!begun) document.text.offset = next.offset;
      begun = true;
      if (next.offset != document.text.offset + document.text.tokens * width) {
        const std::string what = "its sequences are not contiguous in the .bin (sequence " +
                                 std::to_string(i) + " at offset " + std::to_string(next.offset) +
                                 ")";
        if (!header_.modes) return error(row, what);
        document.fault = "text between media: " + what;
      }
      document.text.tokens += next.size_bytes / width;
    }
    return document;
  }

  void hash_into(std::vector<uint64_t>* hashes) const {
    hashes->push_back(lengths_.hash());
    hashes->push_back(pointers_.hash());
  }
  uint64_t modes_hash() const { return modes_.hash(); }

 private:
  Status error(uint64_t row, const std::string& what) const {
    return idx_error(job_, "document " + std::to_string(row) + ": " + what);
  }

  Result<PackedFile> sequence(uint64_t row) {
    const uint64_t bin_bytes = job_.file.fingerprint.size_bytes;
    OVERLORD_TRY(const int32_t length, lengths_.next());
    OVERLORD_TRY(const int64_t pointer, pointers_.next());
    PackedFile next;
    if (header_.modes) {
      OVERLORD_TRY(next.mode, modes_.next());
    }
    if (length < 0 || pointer < 0) return error(row, "negative length or pointer");
    next.offset = static_cast<uint64_t>(pointer);
    next.size_bytes = static_cast<uint64_t>(length) * element_bytes(header_.element);
    if (next.offset > bin_bytes || next.size_bytes > bin_bytes - next.offset) {
      return error(row, "points past the end of the .bin (offset " + std::to_string(next.offset) +
                            ", " + std::to_string(next.size_bytes) + " of " +
                            std::to_string(bin_bytes) + " bytes); is the .bin cut short?");
    }
    return next;
  }

  const ShardJob& job_;
  const Header& header_;
  ArrayStream<int32_t> lengths_;
  ArrayStream<int64_t> pointers_;
  ArrayStream<int8_t> modes_;
};

// A document with its media, where the source wants them.
Status take_document(const ShardJob& job, const Document& document, DocumentBlocks* documents,
                     SequenceMedia* media, ShardPart* part) {
  std::string fault = document.fault;
  const bool with_media = !job.source->media.empty();
  if (with_media) {
    OVERLORD_TRY(const std::string wrong, media->take(document.files));
    if (fault.empty()) fault = wrong;
  }
  const size_t bad = part->bad.size();
  if (fault.empty()) {
    documents->add(document.text);
  } else {
    documents->add_bad(document.text, fault);
  }
  if (with_media) media->end_document(part->bad.size() > bad);
  return {};
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
  Sequences sequences(job, header);
  ArrayStream<int64_t> boundaries(job, kHeaderBytes + header.sequences * 12, header.boundaries);

  ShardPart part;
  part.entry.uri = job.file.uri;
  part.entry.fingerprint = job.file.fingerprint;
  part.companion = job.companion.fingerprint;
  DocumentBlocks documents(job, header.element, &part);
  SequenceMedia media(job, &part);
  uint64_t sequence = 0;
  for (uint64_t i = 0; i < header.boundaries; ++i) {
    OVERLORD_TRY(const int64_t boundary, boundaries.next());
    if (boundary < 0 || static_cast<uint64_t>(boundary) < sequence ||
        static_cast<uint64_t>(boundary) > header.sequences || (i == 0 && boundary != 0)) {
      return idx_error(job, "document index is not ascending from 0 to the sequence count (entry " +
                                std::to_string(i) + " is " + std::to_string(boundary) + ")");
    }
    if (i == 0) continue;
    OVERLORD_TRY(const Document document,
                 sequences.document(i - 1, static_cast<uint64_t>(boundary) - sequence));
    sequence = static_cast<uint64_t>(boundary);
    OVERLORD_RETURN_IF_ERROR(take_document(job, document, &documents, &media, &part));
  }
  if (sequence != header.sequences) {
    return idx_error(job, "document index ends at sequence " + std::to_string(sequence) + " of " +
                              std::to_string(header.sequences));
  }
  if (!job.source->media.empty()) media.finish();
  std::vector<uint64_t> hashes;
  sequences.hash_into(&hashes);
  hashes.push_back(boundaries.hash());
  if (header.modes) hashes.push_back(sequences.modes_hash());
  part.scanned = hash64(hashes.data(), hashes.size() * sizeof(uint64_t));
  return part;
}

}  // namespace overlord::columnar
