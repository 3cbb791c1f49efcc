// BatchTransform: the seam to users' own code over whole microbatches. The arrays of one microbatch
// go in, those that the function replaces come out; the implementation calls back from a thread of
// its own. What may be replaced, and by what, is said here once for all lanes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/ids.h"
#include "overlord/base/status.h"
#include "overlord/model/element.h"
#include "overlord/model/media_slab.h"

namespace overlord::runtime {

struct BatchArray {
  std::string name;  // tokens, targets, loss_weights, positions, ..., media/NAME/data
  model::Element element = model::Element::kU8;
  std::vector<uint64_t> shape;
  model::FieldView view;
};

// One microbatch as it was planned, before it is cut for any rank.
struct BatchQuestion {
  StepIndex step = 0;
  uint32_t microbatch = 0;
  uint32_t group = 0;
  uint64_t key = 0;  // decides all chance in the function
  std::vector<BatchArray> arrays;
  std::shared_ptr<const void> holder;  // of what the views show

  const BatchArray* find(std::string_view name) const;
  std::string place() const;  // for messages
};

struct BatchAnswer {
  std::vector<BatchArray> arrays;  // replaced ones only
  std::shared_ptr<const void> holder;
};

using BatchDone = std::function<void(Result<BatchAnswer>)>;

class BatchTransform {
 public:
  virtual ~BatchTransform() = default;
  virtual void apply(BatchQuestion question, BatchDone done) = 0;
};

// Planned are boundaries, positions and how many tokens carry loss: they stay. So tokens, targets,
// loss weights and the data of media may be replaced, each once, in their own shape and type;
// weights may only be lowered; ids are below `vocabulary`, targets where they carry loss.
// kUserFunction: says what is wrong.
Status check_answer(const BatchQuestion& question, const BatchAnswer& answer, uint64_t vocabulary);

// Whether two answers replace the same arrays by the same bytes.
bool same_answer(const BatchAnswer& one, const BatchAnswer& other);

}  // namespace overlord::runtime
