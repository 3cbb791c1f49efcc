// What a worker of a users' transform answers. The head, the request, the greeting and the error
// are those of workers/tokenizer_frames.h; an answer goes on after its head and its rows with
//   u64 bytes  u64 tokens  u8 kinds[rows]  u32 sizes[rows]  utf-8 text[bytes]  i32 tokens[tokens]
// A row has `sizes` bytes of the text (kText, kBad: the reason), or tokens (kTokens), or nothing.
// Pure functions over bytes of another process: nothing in them is believed before it is checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/runtime/seams.h"

namespace overlord::workers {

enum class TransformedAs : uint8_t { kText, kTokens, kDropped, kBad };

struct TransformAnswer {
  std::vector<uint8_t> kinds;  // of TransformedAs
  std::vector<uint32_t> sizes;
  std::string text;
  std::vector<int32_t> tokens;

  size_t rows() const { return kinds.size(); }
  TransformedAs kind(size_t row) const { return static_cast<TransformedAs>(kinds[row]); }
};

inline constexpr size_t kTransformSizesBytes = 16;

struct TransformSizes {
  uint64_t bytes = 0;
  uint64_t tokens = 0;
};

// kBadData for more than `limit_bytes` in all: nothing is allocated for it.
Result<TransformSizes> parse_transform_sizes(std::string_view bytes, uint64_t limit_bytes);

// Kinds that are known, sizes that add up.
Status check_transform_answer(const TransformAnswer& answer);

// One whole answer of `rows` rows, from the byte after its head on.
Result<TransformAnswer> parse_transform_answer(std::string_view bytes, size_t rows);

// Walks an answer row by row.
class TransformCursor {
 public:
  explicit TransformCursor(const TransformAnswer& answer) : answer_(answer) {}
  struct Row {
    TransformedAs kind = TransformedAs::kDropped;
    std::string_view text;  // or the reason
    const int32_t* tokens = nullptr;
    uint32_t count = 0;  // of tokens

    bool same(const Row& other) const;
  };
  Row next();

 private:
  const TransformAnswer& answer_;
  size_t row_ = 0;
  uint64_t text_at_ = 0;
  uint64_t token_at_ = 0;
};

}  // namespace overlord::workers
