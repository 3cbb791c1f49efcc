// Encoders: one TextEncoder per distinct tokenizer of a job, made when first asked for.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/source.h"
#include "overlord/runtime/seams.h"

namespace overlord::node {

class Encoders {
 public:
  // `worker_command`: how a tokenizer process is started; the tokenizer's path and options follow.
  Encoders(runtime::Executor& executor, std::vector<std::string> worker_command,
           uint32_t processes);

  // Null for ready tokens. Fails when a tokenizer process cannot be set up.
  Result<runtime::TextEncoder*> get(const model::Source& source);
  // Ends every process; callbacks come before it returns.
  void clear() { encoders_.clear(); }

 private:
  runtime::Executor& executor_;
  std::vector<std::string> worker_command_;
  uint32_t processes_;
  std::map<std::string, std::unique_ptr<runtime::TextEncoder>> encoders_;
};

// Wait for a batch; for indexing, inspection and planning without an engine, never on a role's
// loop.
Result<runtime::EncodedRows> encode_blocking(runtime::TextEncoder& encoder, runtime::TextRows rows);

}  // namespace overlord::node
