#include "overlord/columnar/formats/tokens/raw_tokens.h"

#include <algorithm>
#include <limits>
#include <string>

#include "overlord/base/hash.h"
#include "overlord/columnar/formats/tokens/document_blocks.h"
#include "overlord/columnar/formats/tokens/raw_layout.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

using model::DocumentCut;
using model::Element;

constexpr uint64_t kScanBytes = 4 << 20;

// Documents whose marks are found by reading all tokens.
class MarkScan {
 public:
  MarkScan(const ShardJob& job, const RawLayout& layout, DocumentBlocks* documents)
      : job_(job), layout_(layout), documents_(documents) {}

  // A hash of the tokens.
  Result<uint64_t> run() {
    switch (layout_.element) {
      case Element::kU8:
        return scan<uint8_t>();
      case Element::kI8:
        return scan<int8_t>();
      case Element::kU16:
        return scan<uint16_t>();
      case Element::kI16:
        return scan<int16_t>();
      case Element::kU32:
        return scan<uint32_t>();
      case Element::kI32:
        return scan<int32_t>();
      case Element::kU64:
        return scan<uint64_t>();
      case Element::kI64:
        return scan<int64_t>();
      case Element::kF32:
      case Element::kF64:
        break;
    }
    return internal_error("tokens are integers");
  }

 private:
  template <typename T>
  Result<uint64_t> scan() {
    const model::RawTokens& raw = job_.source->raw;
    const char* const key = raw.cut == DocumentCut::kEnd ? "eod" : "bos";
    if (raw.value > static_cast<uint64_t>(std::numeric_limits<T>::max())) {
      return job_.error("`document: {" + std::string(key) + ": " + std::to_string(raw.value) +
                            "}` is more than a token of " +
                            std::string(model::element_name(layout_.element)) + " can be",
                        Code::kInvalidArgument);
    }
    const auto mark = static_cast<T>(raw.value);
    const uint64_t ahead =
        raw.cut == DocumentCut::kEnd ? 1 : 0;  // the mark belongs to its document
    uint64_t hash = 0, done = 0, begin = 0, marks = 0;
    while (done < layout_.tokens) {
      const uint64_t count = std::min(kScanBytes / sizeof(T), layout_.tokens - done);
      OVERLORD_TRY(const runtime::Bytes bytes,
                   job_.read(job_.file, layout_.begin + done * sizeof(T), count * sizeof(T)));
      job_.note_scanned(bytes.size);
      hash = hash64(bytes.data, bytes.size, hash);
      values_.resize(count * sizeof(T));
      std::copy_n(bytes.data, bytes.size, values_.data());  // what was read need not be aligned
      const T* const values = reinterpret_cast<const T*>(values_.data());
      const T* const end = values + count;
      for (const T* at = std::find(values, end, mark); at != end;
           at = std::find(at + 1, end, mark)) {
        ++marks;
        take(&begin, done + static_cast<uint64_t>(at - values) + ahead);
      }
      done += count;
    }
    if (marks == 0 && layout_.tokens > 0) {
      return job_.error("has no token " + std::to_string(raw.value) + " among its " +
                            std::to_string(layout_.tokens) + " of " +
                            std::string(model::element_name(layout_.element)) +
                            ", so no document can be told from the next; are `document." + key +
                            "` and `dtype` right?",
                        Code::kInvalidArgument);
    }
    take(&begin, layout_.tokens);  // the last one has no mark, or none behind it
    return hash;
  }

  void take(uint64_t* begin, uint64_t end) {
    if (end == *begin) return;
    documents_->add({layout_.begin + *begin * model::element_bytes(layout_.element), end - *begin});
    *begin = end;
  }

  const ShardJob& job_;
  const RawLayout& layout_;
  DocumentBlocks* const documents_;
  std::vector<char> values_;
};

// A .bin with an .idx beside it is Megatron's, whose .idx says where its documents are.
Status refuse_megatron(const ShardJob& job) {
  if (!job.file.uri.ends_with(".bin")) return {};
  const std::string beside = job.file.uri.substr(0, job.file.uri.size() - 4) + ".idx";
  const auto info = job.storage->stat(beside);
  if (info.ok()) {
    return job.error("has " + runtime::quote(beside) +
                         " beside it, so it is Megatron's; write `format: megatron` and leave out "
                         "`dtype` and `document`, or move that file away",
                     Code::kInvalidArgument);
  }
  return info.status().code() == Code::kNotFound ? Status() : info.status();
}

}  // namespace

Result<ShardPart> index_raw_tokens_shard(const ShardJob& job) {
  OVERLORD_RETURN_IF_ERROR(refuse_megatron(job));
  const uint64_t size = job.file.fingerprint.size_bytes;
  runtime::Bytes head;
  if (size > 0) {
    OVERLORD_TRY(head, job.read(job.file, 0, std::min(size, kRawHeadBytes)));
  }
  const model::RawTokens& raw = job.source->raw;
  const auto layout = raw_layout(std::string_view(head.data, head.size), size, raw.element);
  if (!layout.ok()) return job.error(layout.status().message(), layout.status().code());

  ShardPart part;
  part.entry.uri = job.file.uri;
  part.entry.fingerprint = job.file.fingerprint;
  DocumentBlocks documents(job, layout->element, &part);
  if (raw.cut != DocumentCut::kLength) {
    OVERLORD_TRY(part.scanned, MarkScan(job, *layout, &documents).run());
    return part;
  }
  const uint64_t width = model::element_bytes(layout->element);
  for (uint64_t first = 0; first < layout->tokens; first += raw.value) {
    documents.add(
        {layout->begin + first * width, std::min<uint64_t>(raw.value, layout->tokens - first)});
  }
  return part;
}

}  // namespace overlord::columnar
