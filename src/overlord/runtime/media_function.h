// MediaFunction: the seam to users' own code over the items of one media field, after their chain.
// An item goes in, one of the same shape and type comes out, or it is bad with a reason; the
// implementation calls back exactly once, from a thread of its own or before apply() returns.
#pragma once

#include <cstdint>
#include <functional>

#include "overlord/base/status.h"
#include "overlord/model/media_slab.h"
#include "overlord/runtime/buffer.h"
#include "overlord/runtime/seams.h"

namespace overlord::runtime {

struct FunctionItem {
  uint64_t key = 0;  // of the sample and its blob: decides all chance, as it does in the chain
  model::MediaLayout layout;
  model::MediaShape shape;
  Bytes given;
  Buffer made;  // at least as large as what is given; whole once it went well
};

// How long it took, in the function and on the way to it and back. kBadData: this item is bad, the
// reason without its place. Everything else is final.
using FunctionDone = std::function<void(Result<int64_t> elapsed_ns)>;

class MediaFunction {
 public:
  virtual ~MediaFunction() = default;
  virtual void apply(FunctionItem item, CancelToken cancel, FunctionDone done) = 0;
};

}  // namespace overlord::runtime
