// TransformingEncoder: text to tokens by way of a user's transform: rows that come out of it as
// text go on to the tokenizer, tokens are taken as they are, the others are bad. Owned by Encoders.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "overlord/base/status.h"
#include "overlord/model/source.h"
#include "overlord/node/functions/transform_desk.h"
#include "overlord/runtime/encoder_costs.h"
#include "overlord/runtime/row_transform.h"
#include "overlord/runtime/seams.h"
#include "overlord/workers/transform_pool.h"
#include "overlord/workers/transform_runner.h"

namespace overlord::node {

// How the transforms of a process are run, beside what their sources say.
struct TransformHosting {
  std::shared_ptr<TransformDesk> desk;  // null: lane thread has worker processes too
  bool one_planner = true;              // see model::RuntimeOptions
};

// Who makes the calls of a transform, and how those that are made are told to stop.
struct TransformSeats {
  std::function<std::unique_ptr<workers::TransformRunner>()> make;
  std::function<void()> stop;
  std::function<uint64_t()> worker_bytes;  // resident; null where there are no processes
};

// `where` is for messages; `desk_key` is what threads of Python know it by; `binary`:
// it is given bytes in place of text.
Result<TransformSeats> transform_seats(const model::Transform& transform, const std::string& where,
                                       const std::string& desk_key, const TransformHosting& hosting,
                                       bool binary = false);

workers::TransformPoolOptions pool_options(const model::Source& source,
                                           const model::Transform& transform,
                                           const TransformHosting& hosting, TransformSeats seats);

// The pool that runs a source's transform.
Result<std::unique_ptr<runtime::RowTransform>> make_transform(const model::Source& source,
                                                              const TransformHosting& hosting);

class TransformingEncoder final : public runtime::TextEncoder, public runtime::EncoderCosts {
 public:
  // `tokenizer` outlives it; null: rows may only come out as tokens.
  TransformingEncoder(std::unique_ptr<runtime::RowTransform> transform, const model::Source& source,
                      runtime::TextEncoder* tokenizer);

  void encode(runtime::TextRows rows, runtime::CancelToken cancel,
              runtime::EncodeDone done) override;
  uint64_t worker_bytes() const override;
  uint64_t python_ns() const override { return *python_ns_; }

 private:
  std::unique_ptr<runtime::RowTransform> transform_;
  const std::string source_;
  const std::string function_;
  runtime::TextEncoder* tokenizer_;
  const std::shared_ptr<std::atomic<uint64_t>> python_ns_;  // callbacks may come last
};

}  // namespace overlord::node
