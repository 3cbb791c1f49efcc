// Encoders: one TextEncoder per distinct tokenizer of a job, and one per source with a transform,
// made when first asked for.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/source.h"
#include "overlord/node/functions/transforming_encoder.h"
#include "overlord/runtime/seams.h"

namespace overlord::node {

class Encoders {
 public:
  // `worker_command`: how a tokenizer process is started; the tokenizer's path and options follow.
  Encoders(runtime::Executor& executor, std::vector<std::string> worker_command,
           uint32_t processes);

  // Null for ready tokens. Fails when a tokenizer process cannot be set up.
  Result<runtime::TextEncoder*> get(const model::Source& source);
  // Before the first get().
  void set_transforms(TransformHosting hosting) { hosting_ = std::move(hosting); }
  // Ends every process; callbacks come before it returns. Transforms first: they use tokenizers.
  void clear() {
    transforming_.clear();
    encoders_.clear();
  }

 private:
  Result<runtime::TextEncoder*> tokenizer_of(const model::Source& source);

  runtime::Executor& executor_;
  std::vector<std::string> worker_command_;
  uint32_t processes_;
  TransformHosting hosting_;
  std::map<std::string, std::unique_ptr<runtime::TextEncoder>> encoders_;
  std::map<std::string, std::unique_ptr<runtime::TextEncoder>> transforming_;  // by source
};

// Wait for a batch; for indexing, inspection and planning without an engine, never on a role's
// loop.
Result<runtime::EncodedRows> encode_blocking(runtime::TextEncoder& encoder, runtime::TextRows rows);

}  // namespace overlord::node
