#include "overlord/protocol/journal/state_difference.h"

#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "overlord/base/bytes.h"
#include "overlord/base/check.h"
#include "overlord/base/hash.h"
#include "overlord/protocol/journal/cursor_columns.h"
#include "overlord/protocol/journal/kept_documents.h"
#include "overlord/protocol/state_codec.h"

namespace overlord::protocol {
namespace {

constexpr int kLevel = 3;  // higher ones save a few bytes of a hundred and take far longer
constexpr int kFewestWindowBits = 10;
constexpr int kMostWindowBits = 27;
constexpr size_t kMostNumberBytes = 10;  // of a varint

// Of the frame and of what it is a difference to: other states before it are damage too, and all of
// it is found before anything is made of the frame.
uint64_t checksum(const StatesBefore& before, std::string_view frame) {
  uint64_t sum = 0;
  for (const std::string_view bytes : {before.earlier, before.last, frame}) {
    if (!bytes.empty()) sum = hash64(bytes.data(), bytes.size(), sum);
  }
  return sum;
}

// Of the state before the last, where it has as many.
std::vector<uint64_t> earlier_cursors(const StatesBefore& before, const StateParts& last) {
  std::vector<uint64_t> cursors = state_parts(before.earlier).cursors;
  if (cursors.size() != last.cursors.size()) cursors.clear();
  return cursors;
}

// The state after, without the documents that it carries as the last one did, and with its cursors
// as columns. States with another number of cursors are all tail.
std::string columns_of(const StatesBefore& before, const StateParts& last, std::string_view bytes) {
  const Leftover leftover = without_kept(before.last, bytes);
  StateParts after = state_parts(leftover.state);
  if (after.cursors.size() != last.cursors.size()) after = {{}, {}, leftover.state};
  ByteWriter writer;
  writer.text(leftover.kept);
  writer.text(after.head);
  writer.varint(after.cursors.size());
  if (!after.cursors.empty()) {
    write_columns(&writer, earlier_cursors(before, last), last.cursors, after.cursors);
  }
  writer.raw(after.tail.data(), after.tail.size());
  return writer.take();
}

Result<std::string> state_of(const StatesBefore& before, const StateParts& last,
                             std::string_view columns, size_t limit) {
  ByteReader reader(columns);
  const std::string_view kept = reader.text();
  const std::string_view head = reader.text();
  const uint64_t count = reader.varint();
  if (count != 0 && count != last.cursors.size()) {
    return bad_data("difference of states: to a state of other cursors");
  }
  std::vector<uint64_t> cursors;
  if (count != 0) cursors = read_columns(&reader, earlier_cursors(before, last), last.cursors);
  const std::string_view tail = reader.raw(reader.remaining());
  OVERLORD_RETURN_IF_ERROR(reader.status("difference of states"));
  ByteWriter writer;
  writer.raw(head.data(), head.size());
  for (const uint64_t number : cursors) writer.varint(number);
  writer.raw(tail.data(), tail.size());
  OVERLORD_TRY(std::string state, with_kept(before.last, {std::string(kept), writer.take()}));
  if (state.size() > limit) {
    return bad_data("difference of states: to a state of " + std::to_string(state.size()) +
                    " bytes, at most " + std::to_string(limit) + " are read");
  }
  return state;
}

// Both lie in the window, else what was before could not be pointed at.
int window_bits(size_t both_bytes) {
  return std::clamp(static_cast<int>(std::bit_width(both_bytes)), kFewestWindowBits,
                    kMostWindowBits);
}

void must(size_t answer) { OVERLORD_CHECK(!ZSTD_isError(answer), "zstd does as it is told"); }

std::string compress(ZSTD_CCtx* context, std::string_view prefix, std::string_view bytes) {
  must(
      ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_bits(prefix.size() + bytes.size())));
  must(ZSTD_CCtx_refPrefix(context, prefix.data(), prefix.size()));
  std::string frame(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size =
      ZSTD_compress2(context, frame.data(), frame.size(), bytes.data(), bytes.size());
  must(size);
  frame.resize(size);
  return frame;
}

Result<std::string> decompress(ZSTD_DCtx* context, std::string_view prefix, std::string_view frame,
                               size_t limit) {
  const unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR || size > limit ||
      ZSTD_findFrameCompressedSize(frame.data(), frame.size()) != frame.size()) {
    return bad_data("difference of states: not one zstd frame of at most " + std::to_string(limit) +
                    " bytes");
  }
  std::string bytes(size, '\0');
  size_t got = ZSTD_DCtx_refPrefix(context, prefix.data(), prefix.size());
  if (!ZSTD_isError(got)) {
    got = ZSTD_decompressDCtx(context, bytes.data(), bytes.size(), frame.data(), frame.size());
  }
  if (ZSTD_isError(got)) {
    return bad_data(std::string("difference of states: zstd says ") + ZSTD_getErrorName(got));
  }
  if (got != size) return bad_data("difference of states: shorter than it says");
  return bytes;
}

}  // namespace

StateDifferences::StateDifferences() = default;
StateDifferences::~StateDifferences() = default;
StateDifferences::StateDifferences(StateDifferences&&) noexcept = default;
StateDifferences& StateDifferences::operator=(StateDifferences&&) noexcept = default;

void StateDifferences::Free::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }
void StateDifferences::Free::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }

std::string StateDifferences::difference(const StatesBefore& before, std::string_view after) {
  if (writing_ == nullptr) {
    writing_.reset(ZSTD_createCCtx());
    OVERLORD_CHECK(writing_ != nullptr, "memory for differences of states");
    must(ZSTD_CCtx_setParameter(writing_.get(), ZSTD_c_compressionLevel, kLevel));
    // Of what comes out: ours is of what goes in.
    must(ZSTD_CCtx_setParameter(writing_.get(), ZSTD_c_checksumFlag, 1));
  }
  const StateParts last = state_parts(before.last);
  const std::string frame = compress(writing_.get(), last.tail, columns_of(before, last, after));
  ByteWriter writer;
  writer.u64(checksum(before, frame));
  writer.raw(frame.data(), frame.size());
  return writer.take();
}

Result<std::string> StateDifferences::apply_difference(const StatesBefore& before,
                                                       std::string_view difference, size_t limit) {
  ByteReader reader(difference);
  const uint64_t expected = reader.u64();
  const std::string_view frame = reader.raw(reader.remaining());
  if (reader.failed() || checksum(before, frame) != expected) {
    return bad_data("difference of states: damaged, or not to the states before it");
  }
  if (reading_ == nullptr) reading_.reset(ZSTD_createDCtx());
  if (reading_ == nullptr) return Status(Code::kResource, "no memory for differences of states");
  const StateParts last = state_parts(before.last);
  // What a number moved may have more bytes than the number.
  const size_t most = limit + kMostNumberBytes * (last.cursors.size() + 5);
  OVERLORD_TRY(const std::string columns, decompress(reading_.get(), last.tail, frame, most));
  return state_of(before, last, columns, limit);
}

}  // namespace overlord::protocol
