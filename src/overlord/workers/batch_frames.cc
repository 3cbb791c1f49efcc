#include "overlord/workers/batch_frames.h"

#include <optional>

#include "overlord/base/bytes.h"
#include "overlord/workers/worker_rules.h"

namespace overlord::workers {
namespace {

using runtime::BatchArray;

constexpr size_t kLeastArrayBytes = 6;  // of its entry: a name of no length, no side
constexpr uint8_t kMostSides = 8;
constexpr uint8_t kLastElement = static_cast<uint8_t>(model::Element::kF64);

// Bytes of an array of this shape; nothing when that is more than `limit`.
std::optional<uint64_t> size_of(const BatchArray& array, uint64_t limit) {
  uint64_t size = model::element_bytes(array.element);
  for (const uint64_t side : array.shape) {
    if (side != 0 && size > limit / side) return std::nullopt;
    size *= side;
  }
  return size;
}

}  // namespace

std::string encode_batch_question(const runtime::BatchQuestion& question) {
  ByteWriter head;
  head.u64(question.key);
  head.u64(question.step);
  head.u32(question.microbatch);
  head.u32(question.group);
  head.u32(static_cast<uint32_t>(question.arrays.size()));
  size_t size = 0;
  for (const BatchArray& array : question.arrays) {
    head.u32(static_cast<uint32_t>(array.name.size()));
    head.raw(array.name.data(), array.name.size());
    head.u8(static_cast<uint8_t>(array.element));
    head.u8(static_cast<uint8_t>(array.shape.size()));
    for (const uint64_t side : array.shape) head.u64(side);
    size += array.view.size_bytes + kArrayAlignment;
  }
  std::string frame = head.take();
  frame.reserve(frame.size() + size);
  for (const BatchArray& array : question.arrays) {
    if (array.view.size_bytes == 0) continue;
    frame.resize(aligned(frame.size()), '\0');
    frame.append(static_cast<const char*>(array.view.data), array.view.size_bytes);
  }
  return frame;
}

Result<std::vector<BatchArray>> parse_batch_answer(std::string_view frame) {
  ByteReader reader(frame);
  const uint32_t count = reader.u32();
  if (count > reader.remaining() / kLeastArrayBytes) {
    return bad_data("an answer of more arrays than it has room for");
  }
  std::vector<BatchArray> arrays(count);
  for (BatchArray& array : arrays) {
    array.name = reader.raw(reader.u32());
    const uint8_t element = reader.u8();
    const uint8_t sides = reader.u8();
    if (element > kLastElement || sides > kMostSides) {
      return bad_data("an answer has an array of no known type or of too many sides");
    }
    array.element = static_cast<model::Element>(element);
    for (uint8_t i = 0; i < sides; ++i) array.shape.push_back(reader.u64());
  }
  OVERLORD_RETURN_IF_ERROR(reader.status("the arrays of an answer", /*whole=*/false));
  size_t at = frame.size() - reader.remaining();
  for (BatchArray& array : arrays) {
    const std::optional<uint64_t> size = size_of(array, frame.size());
    if (!size) return bad_data("an answer ends before its arrays do");
    if (*size == 0) continue;
    at = aligned(at);
    if (at > frame.size() || *size > frame.size() - at) {
      return bad_data("an answer ends before its arrays do");
    }
    array.view = {frame.data() + at, *size};
    at += *size;
  }
  if (at != frame.size()) return bad_data("an answer goes on behind its arrays");
  return arrays;
}

}  // namespace overlord::workers
