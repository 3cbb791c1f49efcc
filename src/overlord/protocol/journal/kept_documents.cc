#include "overlord/protocol/journal/kept_documents.h"

#include <utility>
#include <vector>

#include "overlord/protocol/state_codec.h"

namespace overlord::protocol {
namespace {

bool is_kept(std::string_view bits, size_t i) {
  return i / 8 < bits.size() && (static_cast<unsigned char>(bits[i / 8]) >> (i % 8) & 1) != 0;
}

// The longest row of documents at the front of `after` that `before` has in this order. The oldest
// come first, and what a step leaves behind comes last.
std::string kept_bits(const std::vector<model::Carried>& before,
                      const std::vector<model::Carried>& after) {
  std::string bits((before.size() + 7) / 8, '\0');
  size_t next = 0;
  for (size_t i = 0; i < before.size() && next < after.size(); ++i) {
    if (!(before[i] == after[next])) continue;
    bits[i / 8] = static_cast<char>(bits[i / 8] | 1 << (i % 8));
    ++next;
  }
  return next == 0 ? "" : bits;
}

Result<std::string> joined(const model::StreamState& before, const Leftover& leftover) {
  OVERLORD_TRY(model::StreamState state, decode_stream_state(leftover.state));
  std::vector<model::Carried> carried;
  for (size_t i = 0; i < before.carried.size(); ++i) {
    if (is_kept(leftover.kept, i)) carried.push_back(before.carried[i]);
  }
  for (const model::Carried& document : carried) {
    if (document.id.source >= state.cursors.size()) {
      return bad_data("difference of states: a document of a source that is not there");
    }
  }
  carried.insert(carried.end(), std::make_move_iterator(state.carried.begin()),
                 std::make_move_iterator(state.carried.end()));
  state.carried = std::move(carried);
  return encode_stream_state(state);
}

}  // namespace

Leftover without_kept(std::string_view before, std::string_view after) {
  const Leftover whole{"", std::string(after)};
  const Result<model::StreamState> then = decode_stream_state(before);
  Result<model::StreamState> now = decode_stream_state(after);
  if (!then.ok() || !now.ok()) return whole;
  Leftover out{kept_bits(then->carried, now->carried), ""};
  size_t kept = 0;
  for (size_t i = 0; i < then->carried.size(); ++i) kept += is_kept(out.kept, i) ? 1 : 0;
  now->carried.erase(now->carried.begin(), now->carried.begin() + static_cast<ptrdiff_t>(kept));
  out.state = encode_stream_state(*now);
  const Result<std::string> again = joined(*then, out);
  return kept > 0 && again.ok() && *again == after ? out : whole;
}

Result<std::string> with_kept(std::string_view before, Leftover leftover) {
  if (leftover.kept.empty()) return std::move(leftover.state);
  OVERLORD_TRY(const model::StreamState then, decode_stream_state(before));
  return joined(then, leftover);
}

}  // namespace overlord::protocol
