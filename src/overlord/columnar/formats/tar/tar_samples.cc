// The part of tar_reader.h that indexing and reading share: how samples stand in the index.
#include "overlord/columnar/formats/tar/tar_reader.h"

namespace overlord::columnar {
namespace {

constexpr uint64_t kMaxOffset = uint64_t{1} << 62;
enum : uint8_t { kBadSample = 1, kPackedText = 2, kPackedMetadata = 4 };

void write_place(const MemberPlace& place, uint64_t base, ByteWriter* out) {
  out->varint(place.present ? place.size_bytes + 1 : 0);
  if (place.present) out->varint(place.offset - base);
}

bool read_place(ByteReader* in, uint64_t base, MemberPlace* out) {
  const uint64_t size = in->varint();
  if (size == 0) return true;
  const uint64_t offset = in->varint();
  *out = {true, base + offset, size - 1};
  return offset <= kMaxOffset && size <= kMaxOffset && base <= kMaxOffset;
}

bool read_list(ByteReader* in, uint64_t base, const model::MediaField& field,
               std::vector<MemberPlace>* out) {
  const size_t count = in->count(2);
  if (!too_many_blobs(field, count).empty()) return false;
  out->resize(count);
  for (MemberPlace& place : *out) {
    if (!read_place(in, base, &place) || !place.present) return false;
  }
  return true;
}

}  // namespace

TextMember text_member(const model::Source& source) {
  if (source.schema.declared()) return {"json", {}};
  const std::string& text = source.text_column;
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return {text, {}};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

void write_samples(const std::vector<SampleEntry>& samples, uint64_t base, ByteWriter* out) {
  for (const SampleEntry& sample : samples) {
    out->u8(sample.bad ? kBadSample
                       : (sample.text.packed ? kPackedText : 0) |
                             (sample.metadata.packed ? kPackedMetadata : 0));
    if (sample.bad) continue;
    write_place(sample.text, base, out);
    write_place(sample.metadata, base, out);
    for (const std::vector<MemberPlace>& list : sample.media) {
      out->varint(list.size());
      for (const MemberPlace& place : list) write_place(place, base, out);
    }
  }
}

bool read_samples(ByteReader* in, uint64_t base, size_t rows,
                  const std::vector<model::MediaField>& media, TarBlock* out) {
  if (rows > in->remaining()) return false;
  out->samples.resize(rows);
  for (SampleEntry& sample : out->samples) {
    const uint8_t flags = in->u8();
    sample.bad = (flags & kBadSample) != 0;
    sample.media.resize(media.size());
    if (sample.bad) continue;
    bool fits = read_place(in, base, &sample.text) && read_place(in, base, &sample.metadata);
    sample.text.packed = (flags & kPackedText) != 0;
    sample.metadata.packed = (flags & kPackedMetadata) != 0;
    for (size_t field = 0; fits && field < media.size(); ++field) {
      fits = read_list(in, base, media[field], &sample.media[field]);
    }
    if (!fits || in->failed() || !sample.text.present) return false;
  }
  return !in->failed() && in->at_end();
}

}  // namespace overlord::columnar
