// RIFF WAVE: chunks of a name and a size. `fmt ` says what a sample is, `data` holds them.
#include <algorithm>

#include "overlord/media/audio/audio_header.h"
#include "overlord/media/byte_view.h"
#include "overlord/runtime/quote.h"

namespace overlord::media {
namespace {

constexpr uint32_t kPcm = 1;
constexpr uint32_t kFloat = 3;
constexpr uint32_t kALaw = 6;
constexpr uint32_t kMuLaw = 7;
constexpr uint32_t kExtensible = 0xFFFE;
constexpr uint32_t kStreamed = 0xFFFFFFFF;  // written to a pipe: the length was not known

struct Chunk {
  size_t start = 0;  // of its contents
  uint32_t size = 0;
  bool found = false;
};

// The sample's coding and depth out of the contents of `fmt `.
Status read_format(std::string_view bytes, const Chunk& chunk, AudioHeader* header,
                   uint32_t* frame_bytes) {
  if (chunk.size < 16 || !holds(bytes, chunk.start, chunk.size)) {
    return bad_data("wav is cut: its fmt chunk of " + std::to_string(chunk.size) +
                    " bytes is too short or not all there");
  }
  uint32_t tag = little_u16(bytes, chunk.start);
  header->channels = static_cast<int32_t>(little_u16(bytes, chunk.start + 2));
  const uint32_t rate = little_u32(bytes, chunk.start + 4);
  header->sample_rate = static_cast<int32_t>(std::min<uint32_t>(rate, 0x7FFFFFFF));
  *frame_bytes = little_u16(bytes, chunk.start + 12);
  header->bit_depth = static_cast<int32_t>(little_u16(bytes, chunk.start + 14));
  if (tag == kExtensible && chunk.size >= 26) tag = little_u16(bytes, chunk.start + 24);
  const int32_t depth = header->bit_depth;
  bool known = false;
  if (tag == kPcm) {
    header->coding = AudioCoding::kInteger;
    known = depth == 8 || depth == 16 || depth == 24 || depth == 32;
  } else if (tag == kFloat) {
    header->coding = AudioCoding::kFloat;
    known = depth == 32 || depth == 64;
  } else if (tag == kALaw || tag == kMuLaw) {
    header->coding = AudioCoding::kCompanded;
    known = depth == 8;
  }
  if (!known) {
    return bad_data("wav is of an unsupported coding: tag " + std::to_string(tag) + " with " +
                    std::to_string(depth) +
                    " bits; PCM of 8, 16, 24 or 32 bits, float of 32 or 64, A-law and mu-law of 8 "
                    "are read");
  }
  const uint32_t wanted =
      static_cast<uint32_t>(header->channels) * static_cast<uint32_t>(depth / 8);
  if (*frame_bytes != wanted || wanted == 0) {
    return bad_data("wav contradicts itself: " + std::to_string(header->channels) +
                    " channels of " + std::to_string(depth) + " bits are " +
                    std::to_string(wanted) + " bytes, but it says " + std::to_string(*frame_bytes));
  }
  return {};
}

}  // namespace

Result<AudioHeader> probe_wav(std::string_view bytes, uint64_t size_bytes) {
  AudioHeader header;
  header.format = AudioFormat::kWav;
  Chunk format;
  Chunk data;
  for (size_t at = 12; holds(bytes, at, 8) && !data.found;) {
    const std::string_view name = bytes.substr(at, 4);
    const Chunk chunk{at + 8, little_u32(bytes, at + 4), true};
    if (name == "fmt " && !format.found) format = chunk;
    if (name == "data") data = chunk;
    at += 8 + size_t{chunk.size} + chunk.size % 2;
  }
  if (!format.found || !data.found) {
    return bad_data(std::string("wav is cut or damaged: it has no ") +
                    (format.found ? "data" : "fmt") + " chunk in " + std::to_string(bytes.size()) +
                    " bytes");
  }
  uint32_t frame_bytes = 0;
  OVERLORD_RETURN_IF_ERROR(read_format(bytes, format, &header, &frame_bytes));
  const uint64_t there = size_bytes - data.start;
  if (data.size == kStreamed) {
    header.frames = static_cast<int64_t>(there / frame_bytes);
    return header;
  }
  if (data.size > there) {
    return bad_data("wav is cut: its data chunk promises " + std::to_string(data.size) +
                    " bytes, " + std::to_string(there) + " are there");
  }
  header.frames = data.size / frame_bytes;
  return header;
}

}  // namespace overlord::media
