#include "overlord/runtime/byte_encoder.h"

#include <algorithm>
#include <utility>

#include "overlord/runtime/steady_clock.h"
#include "overlord/runtime/text_rows.h"

namespace overlord::runtime {
namespace {

Result<EncodedRows> bytes_as_tokens(TextRows rows, const CancelToken& cancel) {
  if (cancel.cancelled()) return Status(Code::kCancelled, "encoding was cancelled");
  OVERLORD_RETURN_IF_ERROR(check_text_rows(rows));
  EncodedRows encoded;
  encoded.tokens.resize(rows.bytes.size());
  std::transform(rows.bytes.begin(), rows.bytes.end(), encoded.tokens.begin(),
                 [](char byte) { return static_cast<int32_t>(static_cast<uint8_t>(byte)); });
  encoded.ends = std::move(rows.ends);
  return encoded;
}

}  // namespace

void ByteEncoder::encode(TextRows rows, CancelToken cancel, EncodeDone done) {
  executor_.post(
      [rows = std::move(rows), cancel = std::move(cancel), done = std::move(done)]() mutable {
        const int64_t begin_ns = steady_now_ns();
        Result<EncodedRows> encoded = bytes_as_tokens(std::move(rows), cancel);
        if (encoded.ok()) encoded->elapsed_ns = steady_now_ns() - begin_ns;
        done(std::move(encoded));
      });
}

}  // namespace overlord::runtime
