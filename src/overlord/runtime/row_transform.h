// RowTransform: the seam to users' own code over rows of text. A batch goes in, every row comes out
// as text, as tokens, or bad with a reason; the implementation calls back from a thread of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/sample_meta.h"
#include "overlord/runtime/seams.h"

namespace overlord::runtime {

// A row is in exactly one of the three. In the other two it is there and empty.
struct TransformedRows {
  TextRows text;
  EncodedRows tokens;
  std::vector<model::BadRow> bad;  // ascending; reasons without the row's place
  uint64_t token_rows = 0;         // rows that came out as tokens
  int64_t elapsed_ns = 0;          // in the function and on the way to it and back
};

using TransformDone = std::function<void(Result<TransformedRows>)>;

class RowTransform {
 public:
  virtual ~RowTransform() = default;
  // An empty row has nothing to transform: it comes out as empty text.
  virtual void apply(TextRows rows, CancelToken cancel, TransformDone done) = 0;
};

}  // namespace overlord::runtime
