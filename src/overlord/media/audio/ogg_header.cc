// OGG with one stream of Vorbis or Opus: the first page names the codec, the last page the length.
#include <algorithm>
#include <array>

#include "overlord/media/audio/audio_header.h"
#include "overlord/media/byte_view.h"
#include "overlord/runtime/quote.h"

namespace overlord::media {
namespace {

constexpr size_t kPageHeader = 27;
constexpr size_t kChecksumAt = 22;
constexpr uint32_t kContinued = 1;  // flags of a page
constexpr uint32_t kFirst = 2;
constexpr uint32_t kLast = 4;
constexpr int32_t kOpusRate = 48000;  // Opus counts and decodes at this rate whatever it was fed

struct Page {
  uint32_t version = 0;
  uint32_t flags = 0;
  int64_t position = 0;
  uint32_t stream = 0;
  uint32_t number = 0;
  std::string_view lacing;  // sizes of what it holds; a packet ends where one is below 255
  size_t start = 0;         // of its contents
  size_t size = 0;          // of its contents

  size_t end() const { return start + size; }
};

// False where no whole page starts at `at`.
bool read_page(std::string_view bytes, size_t at, Page* page) {
  if (!holds(bytes, at, kPageHeader) || bytes.substr(at, 4) != "OggS") return false;
  const size_t segments = byte_at(bytes, at + 26);
  if (!holds(bytes, at + kPageHeader, segments)) return false;
  page->version = byte_at(bytes, at + 4);
  page->flags = byte_at(bytes, at + 5);
  page->position =
      static_cast<int64_t>(uint64_t{little_u32(bytes, at + 10)} << 32 | little_u32(bytes, at + 6));
  page->stream = little_u32(bytes, at + 14);
  page->number = little_u32(bytes, at + 18);
  page->lacing = bytes.substr(at + kPageHeader, segments);
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
    if (read_page(bytes, at, page) && page->end() == bytes.size()) return true;
  }
  return false;
}

constexpr std::array<uint32_t, 256> kChecksums = [] {
  std::array<uint32_t, 256> table = {};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t rest = i << 24;
    for (int bit = 0; bit < 8; ++bit) rest = rest << 1 ^ (rest >> 31 != 0 ? 0x04C11DB7U : 0U);
    table[i] = rest;
  }
  return table;
}();

// Whether a whole page is as it was written: its checksum is taken with zeros in its own place.
bool checksum_holds(std::string_view page) {
  uint32_t sum = 0;
  for (size_t i = 0; i < page.size(); ++i) {
    const bool own = i >= kChecksumAt && i < kChecksumAt + 4;
    sum = sum << 8 ^ kChecksums[sum >> 24 ^ (own ? 0U : byte_at(page, i))];
  }
  return sum == little_u32(page, kChecksumAt);
}

// What no decoder of Vorbis goes on with: another version, blocks of no size, no end.
bool identifies_vorbis(std::string_view packet) {
  if (!packet.starts_with("\x01vorbis") || packet.size() < 30) return false;
  const uint32_t shorter = byte_at(packet, 28) & 15;  // powers of two
  const uint32_t longer = byte_at(packet, 28) >> 4;
  return little_u32(packet, 7) == 0 && byte_at(packet, 11) > 0 && little_u32(packet, 12) > 0 &&
         shorter >= 6 && longer >= shorter && longer <= 13 && (byte_at(packet, 29) & 1) != 0;
}

}  // namespace

Status check_ogg_headers(std::string_view bytes) {
  const auto damaged = [](size_t at, std::string_view why) {
    return bad_data("ogg is damaged: the page of its headers at byte " + std::to_string(at) + " " +
                    std::string(why));
  };
  Page page;
  uint32_t stream = 0;
  uint32_t number = 0;
  size_t wanted = 1;  // packets
  size_t packets = 0;
  bool inside = false;  // a packet goes on in the next page
  for (size_t at = 0;; at = page.end()) {
    if (!read_page(bytes, at, &page)) return damaged(at, "is not there or not whole");
    if (!checksum_holds(bytes.substr(at, page.end() - at))) {
      return damaged(at, "fails its checksum");
    }
    if (at == 0) {
      stream = page.stream;
      number = page.number;
      const std::string_view packet = bytes.substr(page.start, page.size);
      if (packet.starts_with("\x01vorbis")) {
        wanted = 3;
        if (!identifies_vorbis(packet)) return damaged(at, "identifies no Vorbis that is known");
      }
    }
    if (page.stream != stream) continue;
    if (page.version != 0 || page.number != number++ ||
        inside != ((page.flags & kContinued) != 0)) {
      return damaged(at, "does not continue the one before it");
    }
    for (size_t i = 0; i < page.lacing.size(); ++i) {
      inside = byte_at(page.lacing, i) == 255;
      packets += inside ? 0 : 1;
    }
    if (at == 0 && (packets != 1 || inside)) return damaged(at, "holds not one packet");
    if (packets >= wanted) return {};
    if ((page.flags & kLast) != 0) return damaged(at, "is the last of the stream");
  }
}

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
  // Any 64 bits may stand there: no difference of a position below what is skipped is taken.
  header.frames = last.position > skipped ? last.position - skipped : 0;
  return header;
}

}  // namespace overlord::media
