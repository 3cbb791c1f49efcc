#include "overlord/node/functions/encoders.h"

#include <future>

#include "overlord/runtime/byte_encoder.h"
#include "overlord/workers/tokenizer_process.h"

namespace overlord::node {
namespace {

// Loaders bound what they send (blocks in work); the pool's own limit only guards against a bug.
constexpr uint64_t kQueueLimitBytes = uint64_t{1} << 30;
constexpr size_t kQueueLimitBatches = size_t{1} << 16;

}  // namespace

Encoders::Encoders(runtime::Executor& executor, std::vector<std::string> worker_command,
                   uint32_t processes)
    : executor_(executor), worker_command_(std::move(worker_command)), processes_(processes) {}

Result<runtime::TextEncoder*> Encoders::get(const model::Source& source) {
  OVERLORD_TRY(runtime::TextEncoder * tokenizer, tokenizer_of(source));
  if (!source.transform.declared()) return tokenizer;
  std::unique_ptr<runtime::TextEncoder>& encoder = transforming_[source.name];
  if (encoder) return encoder.get();
  OVERLORD_TRY(auto transform, make_transform(source, hosting_));
  encoder = std::make_unique<TransformingEncoder>(std::move(transform), source, tokenizer);
  return encoder.get();
}

Result<runtime::TextEncoder*> Encoders::tokenizer_of(const model::Source& source) {
  const model::Tokenizer& tokenizer = source.tokenizer;
  if (tokenizer.kind == model::TokenizerKind::kNone) {
    return static_cast<runtime::TextEncoder*>(nullptr);
  }
  const std::string special = tokenizer.add_special_tokens ? "1" : "0";
  const std::string key = tokenizer.kind == model::TokenizerKind::kBytes
                              ? std::string("bytes")
                              : tokenizer.digest + special + tokenizer.path;
  std::unique_ptr<runtime::TextEncoder>& encoder = encoders_[key];
  if (encoder) return encoder.get();
  if (tokenizer.kind == model::TokenizerKind::kBytes) {
    encoder = std::make_unique<runtime::ByteEncoder>(executor_);
    return encoder.get();
  }
  if (worker_command_.empty()) {
    return invalid_argument("source " + source.name +
                            ": a Hugging Face tokenizer needs a worker command");
  }
  workers::TokenizerPoolOptions options;
  options.argv = worker_command_;
  options.argv.push_back(tokenizer.path);
  options.argv.push_back(special);
  if (!tokenizer.chat.empty()) {
    options.argv.push_back(tokenizer.chat);
    options.template_bytes = tokenizer.chat.size();
  }
  options.workers = processes_;
  options.expected_digest = tokenizer.digest;  // the tokenizer.json that the config was read with
  options.queue_limit_bytes = kQueueLimitBytes;
  options.queue_limit_batches = kQueueLimitBatches;
  OVERLORD_TRY(encoder, workers::TokenizerPool::make(std::move(options)));
  return encoder.get();
}

Result<runtime::EncodedRows> encode_blocking(runtime::TextEncoder& encoder,
                                             runtime::TextRows rows) {
  auto answer = std::make_shared<std::promise<Result<runtime::EncodedRows>>>();
  std::future<Result<runtime::EncodedRows>> waiting = answer->get_future();
  encoder.encode(
      std::move(rows), runtime::CancelToken(),
      [answer](Result<runtime::EncodedRows> result) { answer->set_value(std::move(result)); });
  return waiting.get();
}

}  // namespace overlord::node
