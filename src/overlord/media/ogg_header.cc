// OGG with one stream of Vorbis or Opus: the first page names the codec, the last page the length.
#include <algorithm>

#include "overlord/media/audio_header.h"
#include "overlord/media/byte_view.h"
#include "overlord/runtime/quote.h"

namespace overlord::media {
namespace {

constexpr size_t kPageHeader = 27;
constexpr uint32_t kFirst = 2;  // flags of a page
constexpr uint32_t kLast = 4;
constexpr int32_t kOpusRate = 48000;  // Opus counts and decodes at this rate whatever it was fed

struct Page {
  uint32_t flags = 0;
  int64_t position = 0;
  uint32_t stream = 0;
  size_t start = 0;  // of its contents
  size_t size = 0;   // of its contents
};

// False where no whole page starts at `at`.
bool read_page(std::string_view bytes, size_t at, Page* page) {
  if (!holds(bytes, at, kPageHeader) || bytes.substr(at, 4) != "OggS") return false;
  const size_t segments = byte_at(bytes, at + 26);
  if (!holds(bytes, at + kPageHeader, segments)) return false;
  page->flags = byte_at(bytes, at + 5);
  page->position =
      static_cast<int64_t>(uint64_t{little_u32(bytes, at + 10)} << 32 | little_u32(bytes, at + 6));
  page->stream = little_u32(bytes, at + 14);
  page->start = at + kPageHeader + segments;
  page->size = 0;
  for (size_t i = 0; i < segments; ++i) page->size += byte_at(bytes, at + kPageHeader + i);
  return holds(bytes, page->start, page->size);
}

// The page that ends where the bytes end.
bool find_last_page(std::string_view bytes, Page* page) {
  const size_t low = bytes.size() > kLargestOggPage ? bytes.size() - kLargestOggPage : 0;
  for (size_t at = bytes.rfind("OggS"); at != std::string_view::npos && at >= low;
       at = at == 0 ? std::string_view::npos : bytes.rfind("OggS", at - 1)) {
    if (read_page(bytes, at, page) && page->start + page->size == bytes.size()) return true;
  }
  return false;
}

}  // namespace

Result<AudioHeader> probe_ogg(std::string_view bytes, std::string_view end) {
  Page first;
  if (!read_page(bytes, 0, &first)) {
    return bad_data("ogg is cut: " + std::to_string(bytes.size()) +
                    " bytes do not hold its first page");
  }
  const std::string_view packet = bytes.substr(first.start, first.size);
  AudioHeader header;
  header.format = AudioFormat::kOgg;
  int64_t skipped = 0;
  if (packet.starts_with("\x01vorbis") && packet.size() >= 30) {
    header.coding = AudioCoding::kVorbis;
    header.channels = static_cast<int32_t>(byte_at(packet, 11));
    const uint32_t rate = little_u32(packet, 12);
    header.sample_rate = static_cast<int32_t>(std::min<uint32_t>(rate, 0x7FFFFFFF));
  } else if (packet.starts_with("OpusHead") && packet.size() >= 19) {
    header.coding = AudioCoding::kOpus;
    header.channels = static_cast<int32_t>(byte_at(packet, 9));
    header.sample_rate = kOpusRate;
    skipped = static_cast<int64_t>(little_u16(packet, 10));
  } else {
    return bad_data("ogg holds no Vorbis or Opus: its first packet starts with " +
                    runtime::quote(packet.substr(0, 8)));
  }
  Page last;
  if (!find_last_page(end, &last)) return bad_data("ogg is cut: no page ends where the file ends");
  if (last.stream != first.stream || (first.flags & kFirst) == 0) {
    return bad_data("ogg holds more than one stream; one stream of sound per file is read");
  }
  if ((last.flags & kLast) == 0) {
    return bad_data("ogg is cut: its last page does not say that it is the last");
  }
  header.frames = std::max<int64_t>(last.position - skipped, 0);
  return header;
}

}  // namespace overlord::media
