#include "overlord/media/video/mp4_tables.h"

#include <algorithm>
#include <string>

#include "overlord/media/refusals.h"
#include "overlord/runtime/quote.h"

namespace overlord::media {
namespace {

constexpr int64_t kMostEdits = 64;

Status damaged(std::string_view box) {
  return bad_data("mp4 is damaged: " + std::string(box) + " is cut");
}

// tkhd: the matrix turns the picture by quarters; anything else is left as it is.
Status take_track_header(std::string_view body, Mp4Tables* out) {
  const bool wide = !body.empty() && byte_at(body, 0) == 1;
  const size_t matrix = wide ? 52 : 40;
  if (!holds(body, matrix, 36)) return damaged("tkhd");
  out->track_id = big_u32(body, wide ? 20 : 12);
  const auto part = [&](size_t i) {
    const auto value = static_cast<int32_t>(big_u32(body, matrix + 4 * i));
    return value > 0 ? 1 : (value < 0 ? -1 : 0);
  };
  const int32_t a = part(0);
  const int32_t b = part(1);
  const int32_t c = part(3);
  const int32_t d = part(4);
  if (a == 0 && d == 0 && b == 1 && c == -1) out->rotation = 90;
  if (a == -1 && d == -1 && b == 0 && c == 0) out->rotation = 180;
  if (a == 0 && d == 0 && b == -1 && c == 1) out->rotation = 270;
  return {};
}

// mvhd and mdhd have their clock at the same place.
Result<int64_t> clock_of(std::string_view body, std::string_view box) {
  const size_t at = !body.empty() && byte_at(body, 0) == 1 ? 20 : 12;
  if (!holds(body, at, 4)) return damaged(box);
  const int64_t clock = big_u32(body, at);
  if (clock == 0) return bad_data("mp4 has a clock of 0 ticks a second");
  return clock;
}

// elst: empty edits delay the picture, which a single stream does not see; one other is a cut.
Status take_edits(std::string_view body, Mp4Tables* out) {
  if (!holds(body, 0, 8)) return damaged("elst");
  const bool wide = byte_at(body, 0) == 1;
  const size_t row = wide ? 20 : 12;
  const int64_t count = big_u32(body, 4);
  if (count > kMostEdits) {
    return bad_data("mp4 has an edit list of " + std::to_string(count) + " parts; up to " +
                    std::to_string(kMostEdits) + " are read");
  }
  if (!holds(body, 8, static_cast<size_t>(count) * row)) return damaged("elst");
  for (int64_t i = 0; i < count; ++i) {
    const size_t at = 8 + static_cast<size_t>(i) * row;
    const int64_t length = wide ? static_cast<int64_t>(big_u64(body, at)) : big_u32(body, at);
    const int64_t start = wide ? static_cast<int64_t>(big_u64(body, at + 8))
                               : static_cast<int32_t>(big_u32(body, at + 4));
    if (start < 0) continue;
    if (out->edit) return bad_data("mp4 is edited out of several parts of itself; one is read");
    out->edit = Mp4Edit{start, {}};
    if (length > 0) out->edit->length = length;
  }
  return {};
}

// A descriptor of MPEG-4 systems: a tag and a size of up to four 7-bit digits.
bool descriptor(std::string_view body, size_t* at, uint32_t* tag, size_t* size) {
  if (!holds(body, *at, 2)) return false;
  *tag = byte_at(body, (*at)++);
  *size = 0;
  for (int digit = 0; digit < 4; ++digit) {
    if (!holds(body, *at, 1)) return false;
    const uint32_t byte = byte_at(body, (*at)++);
    *size = *size << 7 | (byte & 0x7F);
    if ((byte & 0x80) == 0) break;
  }
  return holds(body, *at, *size);
}

// esds: MPEG-4's own set-up lies three descriptors deep.
Status take_descriptors(std::string_view body, Mp4Tables* out) {
  size_t at = 4;
  uint32_t tag = 0;
  size_t size = 0;
  while (descriptor(body, &at, &tag, &size)) {
    if (tag == 3) {  // a stream: its id and flags, of which none add fields in MP4
      at += 3;
    } else if (tag == 4) {  // its decoder: the kind of stream, buffer and rates
      if (size < 13) return damaged("esds");
      if (byte_at(body, at) != 0x20) return bad_data("clip is of an unsupported coding in mp4v");
      at += 13;
    } else if (tag == 5) {
      out->setup = body.substr(at, size);
      return {};
    } else {
      at += size;
    }
  }
  return {};
}

struct EntryName {
  std::string_view type;
  VideoCoding coding;
  std::string_view setup;  // the box that holds it
};
constexpr EntryName kEntries[] = {
    {"avc1", VideoCoding::kH264, "avcC"}, {"avc3", VideoCoding::kH264, "avcC"},
    {"hvc1", VideoCoding::kHevc, "hvcC"}, {"hev1", VideoCoding::kHevc, "hvcC"},
    {"vp08", VideoCoding::kVp8, ""},      {"vp09", VideoCoding::kVp9, ""},
    {"av01", VideoCoding::kAv1, "av1C"},  {"mp4v", VideoCoding::kMpeg4, "esds"},
};

// stsd: the first entry; later ones are for streams that change their coding.
Status take_entry(std::string_view body, Mp4Tables* out) {
  constexpr size_t kFields = 78;  // of a picture's entry, before its boxes
  Mp4Boxes entries(body.substr(std::min<size_t>(8, body.size())), "stsd");
  if (!entries.more()) return damaged("stsd");
  OVERLORD_TRY(const Mp4Box entry, entries.next());
  const EntryName* known = nullptr;
  for (const EntryName& one : kEntries) {
    if (one.type == entry.type) known = &one;
  }
  if (known == nullptr) {
    return bad_data("clip is of an unsupported coding: " + runtime::quote(entry.type) +
                    "; codings must be H.264, HEVC, VP8, VP9, AV1 or MPEG-4");
  }
  if (!holds(entry.body, 0, kFields)) return damaged("stsd");
  out->coding = known->coding;
  out->width = static_cast<int32_t>(big_u16(entry.body, 24));
  out->height = static_cast<int32_t>(big_u16(entry.body, 26));
  Mp4Boxes boxes(entry.body.substr(kFields), entry.type);
  while (boxes.more()) {
    OVERLORD_TRY(const Mp4Box box, boxes.next());
    if (known->setup.empty() || box.type != known->setup) continue;
    if (box.type == "esds") return take_descriptors(box.body, out);
    out->setup = box.body;
  }
  return {};
}

Status take_sample_tables(std::string_view stbl, Mp4Tables* out) {
  Mp4Boxes boxes(stbl, "stbl");
  while (boxes.more()) {
    OVERLORD_TRY(const Mp4Box box, boxes.next());
    if (box.type == "stsd") OVERLORD_RETURN_IF_ERROR(take_entry(box.body, out));
    if (box.type == "stsz") out->sizes = box.body;
    if (box.type == "stz2") return bad_data("mp4 has its sizes in stz2, which is not read");
    const auto take = [&](size_t row, std::optional<Mp4Table>* to) -> Status {
      OVERLORD_TRY(*to, mp4_table(box, row));
      return {};
    };
    if (box.type == "stts") OVERLORD_RETURN_IF_ERROR(take(8, &out->durations));
    if (box.type == "ctts") OVERLORD_RETURN_IF_ERROR(take(8, &out->delays));
    if (box.type == "stss") OVERLORD_RETURN_IF_ERROR(take(4, &out->keys));
    if (box.type == "stsc") OVERLORD_RETURN_IF_ERROR(take(12, &out->runs));
    if (box.type == "stco") OVERLORD_RETURN_IF_ERROR(take(4, &out->chunks));
    if (box.type == "co64") OVERLORD_RETURN_IF_ERROR(take(8, &out->chunks));
  }
  return {};
}

// Whether a `trak` is of pictures; its tables, if so.
Result<bool> take_track(std::string_view trak, Mp4Tables* out) {
  bool pictures = false;
  Mp4Tables tables;
  std::string_view media;
  Mp4Boxes boxes(trak, "trak");
  while (boxes.more()) {
    OVERLORD_TRY(const Mp4Box box, boxes.next());
    if (box.type == "tkhd") OVERLORD_RETURN_IF_ERROR(take_track_header(box.body, &tables));
    if (box.type == "mdia") media = box.body;
    if (box.type != "edts") continue;
    Mp4Boxes edits(box.body, "edts");
    while (edits.more()) {
      OVERLORD_TRY(const Mp4Box edit, edits.next());
      if (edit.type == "elst") OVERLORD_RETURN_IF_ERROR(take_edits(edit.body, &tables));
    }
  }
  std::string_view information;
  Mp4Boxes inside(media, "mdia");
  while (inside.more()) {
    OVERLORD_TRY(const Mp4Box box, inside.next());
    if (box.type == "minf") information = box.body;
    if (box.type == "hdlr") pictures = holds(box.body, 8, 4) && box.body.substr(8, 4) == "vide";
    if (box.type == "mdhd") {
      OVERLORD_TRY(tables.timescale, clock_of(box.body, "mdhd"));
    }
  }
  if (!pictures) return false;
  Mp4Boxes parts(information, "minf");
  while (parts.more()) {
    OVERLORD_TRY(const Mp4Box box, parts.next());
    if (box.type == "stbl") OVERLORD_RETURN_IF_ERROR(take_sample_tables(box.body, &tables));
  }
  if (!tables.coding || tables.timescale == 0) {
    return bad_data("mp4 is damaged: its video track has no description or no clock");
  }
  *out = tables;
  return true;
}

// mvex: what fragments leave unsaid, by track.
Status take_defaults(std::string_view mvex, Mp4Tables* out) {
  out->fragmented = true;
  Mp4Boxes boxes(mvex, "mvex");
  while (boxes.more()) {
    OVERLORD_TRY(const Mp4Box box, boxes.next());
    if (box.type != "trex") continue;
    if (!holds(box.body, 0, 24)) return damaged("trex");
    if (big_u32(box.body, 4) != out->track_id) continue;
    out->fragment_duration = big_u32(box.body, 12);
    out->fragment_size = big_u32(box.body, 16);
    out->fragment_flags = big_u32(box.body, 20);
  }
  return {};
}

}  // namespace

Result<Mp4Tables> read_mp4_tables(std::string_view moov, const VideoLimits& limits) {
  Mp4Tables tables;
  bool found = false;
  int64_t movie_timescale = 0;
  int64_t streams = 0;
  std::optional<std::string_view> defaults;
  Mp4Boxes boxes(moov, "moov");
  while (boxes.more()) {
    OVERLORD_TRY(const Mp4Box box, boxes.next());
    if (box.type == "mvhd") {
      OVERLORD_TRY(movie_timescale, clock_of(box.body, "mvhd"));
    }
    if (box.type == "cmov") return bad_data("mp4 has its header compressed (cmov)");
    if (box.type == "mvex") defaults = box.body;
    if (box.type != "trak") continue;
    ++streams;
    OVERLORD_RETURN_IF_ERROR(
        within_limit("clip", "number of streams", streams, "max_streams", limits.streams));
    if (!found) {
      OVERLORD_TRY(found, take_track(box.body, &tables));
    }
  }
  if (!found) return bad_data("mp4 has no video track");
  tables.movie_timescale = movie_timescale;
  if (defaults) OVERLORD_RETURN_IF_ERROR(take_defaults(*defaults, &tables));
  return tables;
}

}  // namespace overlord::media
