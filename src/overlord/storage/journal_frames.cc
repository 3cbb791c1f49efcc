#include "overlord/storage/journal_frames.h"

#include <utility>

#include "overlord/base/bytes.h"
#include "overlord/runtime/quote.h"
#include "overlord/storage/crc32c.h"

namespace overlord::storage {
namespace {

constexpr uint32_t kMagic = 0x4a564f00;  // "OVJ" above one byte of version

enum class Frame { kGood, kBad, kForeignVersion };

uint32_t frame_crc(std::string_view length_and_magic, std::string_view body) {
  return crc32c(body.data(), body.size(), crc32c(length_and_magic.data(), length_and_magic.size()));
}

Frame parse_frame(std::string_view bytes, std::string_view* body) {
  if (bytes.size() < kFrameHeaderBytes) return Frame::kBad;
  ByteReader reader(bytes);
  const uint32_t length = reader.u32();
  const uint32_t magic = reader.u32();
  const uint32_t crc = reader.u32();
  if ((magic & ~0xffu) != kMagic || length > reader.remaining()) return Frame::kBad;
  *body = reader.raw(length);
  if (frame_crc(bytes.substr(0, 8), *body) != crc) return Frame::kBad;
  return (magic & 0xff) == kJournalVersion ? Frame::kGood : Frame::kForeignVersion;
}

// Whether any whole frame begins after the start of `bytes`: then what is before it is damage.
bool has_later_frame(std::string_view bytes) {
  const char first = static_cast<char>(kJournalVersion);  // low byte of the magic word
  for (size_t at = 5; at + 8 <= bytes.size(); ++at) {
    at = bytes.find(first, at);
    if (at == std::string_view::npos) return false;
    std::string_view body;
    if (parse_frame(bytes.substr(at - 4), &body) == Frame::kGood) return true;
  }
  return false;
}

Status damaged(const std::string& path, uint64_t offset, const std::string& how) {
  return bad_data("journal " + runtime::quote(path) + " is damaged at offset " +
                  std::to_string(offset) + ": " + how +
                  "; restore the file, or go back to a checkpoint before it");
}

Status foreign_version(const std::string& path, char version) {
  return {Code::kVersionMismatch, "journal " + runtime::quote(path) + " is of version " +
                                      std::to_string(static_cast<unsigned char>(version)) +
                                      ", this build reads " + std::to_string(kJournalVersion) +
                                      "; use the build that wrote it"};
}

bool read_records(std::string_view body, FrameKind kind, std::vector<std::string>* records) {
  ByteReader reader(body);
  if (reader.u8() != static_cast<uint8_t>(kind)) return false;
  while (!reader.at_end()) {
    const std::string_view record = reader.text();
    if (reader.failed()) return false;
    records->emplace_back(record);
  }
  return !reader.failed();
}

}  // namespace

FrameWriter::FrameWriter(FrameKind kind) : bytes_(kFrameHeaderBytes, '\0') {
  bytes_.push_back(static_cast<char>(kind));
}

void FrameWriter::add(std::string_view record) {
  ByteWriter length;
  length.varint(record.size());
  bytes_ += length.bytes();
  bytes_ += record;
}

std::string FrameWriter::take() {
  OVERLORD_CHECK(body_bytes() <= kMaxFrameBytes, "a frame over its limit");
  ByteWriter header;
  header.u32(static_cast<uint32_t>(body_bytes()));
  header.u32(kMagic | kJournalVersion);
  header.u32(frame_crc(header.bytes(), std::string_view(bytes_).substr(kFrameHeaderBytes)));
  bytes_.replace(0, kFrameHeaderBytes, header.bytes());
  return std::move(bytes_);
}

Result<SegmentContents> parse_segment(std::string_view bytes, const std::string& path) {
  SegmentContents contents;
  while (contents.valid_bytes < bytes.size()) {
    const uint64_t offset = contents.valid_bytes;
    const std::string_view rest = bytes.substr(offset);
    std::string_view body;
    const Frame frame = parse_frame(rest, &body);
    if (frame == Frame::kForeignVersion) return foreign_version(path, rest[4]);
    if (frame == Frame::kBad) {
      if (has_later_frame(rest)) {
        return damaged(path, offset, "good records follow, so this is no torn tail");
      }
      contents.cut_bytes = rest.size();
      break;
    }
    const FrameKind kind = contents.has_base ? FrameKind::kRecords : FrameKind::kBase;
    if (!read_records(body, kind, &contents.records)) {
      return damaged(path, offset, "its frame is whole and holds what does not belong there");
    }
    contents.has_base = true;
    contents.valid_bytes += kFrameHeaderBytes + body.size();
  }
  return contents;
}

}  // namespace overlord::storage
