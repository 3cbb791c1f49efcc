// TransformingEncoder: text to tokens by way of a user's transform: rows that come out of it as
// text go on to the tokenizer, tokens are taken as they are, the others are bad. Owned by Encoders.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "overlord/base/status.h"
#include "overlord/model/source.h"
#include "overlord/node/transform_desk.h"
#include "overlord/runtime/row_transform.h"
#include "overlord/runtime/seams.h"

namespace overlord::node {

// How the transforms of a process are run, beside what their sources say.
struct TransformHosting {
  std::shared_ptr<TransformDesk> desk;  // null: lane thread has worker processes too
  bool one_planner = true;              // see model::RuntimeOptions
};

// Who calls a transform's function: one of them for every seat of a pool.
struct TransformSeats {
  std::function<std::unique_ptr<transport::TransformRunner>()> make_runner;
  std::function<void()> stop;  // whoever runs a call gives up
};
// `place` names the transform's owner in messages; `binary`: it is given bytes in place of text.
Result<TransformSeats> transform_seats(const std::string& place, const model::Transform& transform,
                                       const TransformHosting& hosting, bool binary = false);

// The pool that runs a source's transform.
Result<std::unique_ptr<runtime::RowTransform>> make_transform(const model::Source& source,
                                                              const TransformHosting& hosting);

class TransformingEncoder final : public runtime::TextEncoder {
 public:
  // `tokenizer` outlives it; null: rows may only come out as tokens.
  TransformingEncoder(std::unique_ptr<runtime::RowTransform> transform, std::string function,
                      runtime::TextEncoder* tokenizer)
      : transform_(std::move(transform)), function_(std::move(function)), tokenizer_(tokenizer) {}

  void encode(runtime::TextRows rows, runtime::CancelToken cancel,
              runtime::EncodeDone done) override;

 private:
  std::unique_ptr<runtime::RowTransform> transform_;
  std::string function_;
  runtime::TextEncoder* tokenizer_;
};

}  // namespace overlord::node
