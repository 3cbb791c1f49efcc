#include "overlord/workers/transform_frames.h"

#include <algorithm>
#include <cstring>

#include "overlord/base/bytes.h"

namespace overlord::workers {
namespace {

constexpr uint8_t kLastKind = static_cast<uint8_t>(TransformedAs::kBad);

bool holds_text(TransformedAs kind) {
  return kind == TransformedAs::kText || kind == TransformedAs::kBad;
}

}  // namespace

Result<TransformSizes> parse_transform_sizes(std::string_view bytes, uint64_t limit_bytes) {
  ByteReader reader(bytes);
  TransformSizes sizes;
  sizes.bytes = reader.u64();
  sizes.tokens = reader.u64();
  OVERLORD_RETURN_IF_ERROR(reader.status("the sizes of a transform's answer"));
  if (sizes.bytes > limit_bytes || sizes.tokens > (limit_bytes - sizes.bytes) / sizeof(int32_t)) {
    return bad_data("an answer of " + std::to_string(sizes.bytes) + " bytes and " +
                    std::to_string(sizes.tokens) + " tokens is over the limit of " +
                    std::to_string(limit_bytes) + " bytes");
  }
  return sizes;
}

Status check_transform_answer(const TransformAnswer& answer) {
  uint64_t bytes = 0;
  uint64_t tokens = 0;
  for (size_t row = 0; row < answer.rows(); ++row) {
    if (answer.kinds[row] > kLastKind) {
      return bad_data("row " + std::to_string(row) +
                      " of an answer is of no known kind: " + std::to_string(answer.kinds[row]));
    }
    const TransformedAs kind = answer.kind(row);
    if (kind == TransformedAs::kDropped && answer.sizes[row] != 0) {
      return bad_data("row " + std::to_string(row) + " of an answer is dropped and has a size");
    }
    (holds_text(kind) ? bytes : tokens) += answer.sizes[row];
  }
  if (bytes == answer.text.size() && tokens == answer.tokens.size()) return {};
  return bad_data("the rows of an answer do not end where its text and tokens do");
}

Result<TransformAnswer> parse_transform_answer(std::string_view bytes, size_t rows) {
  OVERLORD_TRY(const TransformSizes sizes,
               parse_transform_sizes(bytes.substr(0, kTransformSizesBytes), bytes.size()));
  ByteReader reader(bytes.substr(kTransformSizesBytes));
  TransformAnswer answer;
  const std::string_view kinds = reader.raw(rows);
  const std::string_view row_sizes = reader.raw(rows * sizeof(uint32_t));
  const std::string_view text = reader.raw(sizes.bytes);
  const std::string_view tokens = reader.raw(sizes.tokens * sizeof(int32_t));
  OVERLORD_RETURN_IF_ERROR(reader.status("a transform's answer"));
  answer.kinds.assign(kinds.begin(), kinds.end());
  answer.sizes.resize(rows);
  if (rows > 0) std::memcpy(answer.sizes.data(), row_sizes.data(), row_sizes.size());
  answer.text = text;
  answer.tokens.resize(sizes.tokens);
  if (!tokens.empty()) std::memcpy(answer.tokens.data(), tokens.data(), tokens.size());
  OVERLORD_RETURN_IF_ERROR(check_transform_answer(answer));
  return answer;
}

bool TransformCursor::Row::same(const Row& other) const {
  if (kind == TransformedAs::kBad) return other.kind == kind;  // reasons may hold an address
  return kind == other.kind && text == other.text && count == other.count &&
         std::equal(tokens, tokens + count, other.tokens);
}

TransformCursor::Row TransformCursor::next() {
  Row row;
  row.kind = answer_.kind(row_);
  const uint32_t size = answer_.sizes[row_++];
  if (holds_text(row.kind)) {
    row.text = std::string_view(answer_.text).substr(text_at_, size);
    text_at_ += size;
  } else {
    row.tokens = answer_.tokens.data() + token_at_;
    row.count = size;
    token_at_ += size;
  }
  return row;
}

}  // namespace overlord::workers
