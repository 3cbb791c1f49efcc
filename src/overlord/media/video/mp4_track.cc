// MP4 and QuickTime: from the tables of `moov`, and of fragments, to a list of samples.
#include <algorithm>
#include <optional>
#include <string>

#include "overlord/base/fixed_point.h"
#include "overlord/media/refusals.h"
#include "overlord/media/video/mp4_tables.h"

namespace overlord::media {
namespace {

// The top boxes of a blob of which some bytes are there.
struct TopBoxes {
  std::optional<std::string_view> moov;  // its body
  std::vector<uint64_t> fragments;       // where each `moof` starts
  std::optional<BlobNeed> unread;        // what is needed first and not there
};

bool letters(std::string_view type) {
  return std::all_of(type.begin(), type.end(), [](char c) { return c >= ' ' && c < 127; });
}

Result<TopBoxes> walk_top(const BlobHead& blob) {
  TopBoxes top;
  uint64_t at = 0;
  while (at + 8 <= blob.size_bytes) {
    const uint64_t left = blob.size_bytes - at;
    std::string_view head = blob.at(at, 8);
    const bool wide = !head.empty() && big_u32(head, 0) == 1;
    if (wide) head = blob.at(at, 16);
    if (head.empty()) {
      top.unread = BlobNeed{at, left};
      return top;
    }
    const std::string_view type = head.substr(4, 4);
    uint64_t size = wide ? std::min<uint64_t>(big_u64(head, 8), INT64_MAX) : big_u32(head, 0);
    if (size == 0 && type == "mdat") size = left;
    if (size < head.size() || size > left) {
      // What follows the boxes is nobody's business; a box that lacks its end is.
      if (top.moov && !letters(type)) return top;
      return bad_data("mp4 is cut or damaged: a box of " + std::to_string(size) +
                      " bytes at byte " + std::to_string(at) + " of " +
                      std::to_string(blob.size_bytes));
    }
    if (type == "moov" && !top.moov) {
      const std::string_view body = blob.at(at + head.size(), size - head.size());
      if (body.size() != size - head.size()) {
        top.unread = BlobNeed{at, size};
        return top;
      }
      top.moov = body;
    }
    if (type == "moof") top.fragments.push_back(at);
    at += size;
  }
  return top;
}

Status sample_outside(int64_t index, int64_t end, int64_t size) {
  return bad_data("mp4 is cut or damaged: frame " + std::to_string(index) + " ends at byte " +
                  std::to_string(end) + " of " + std::to_string(size));
}

// Walks a run-length table (count, value) row by row.
class Runs {
 public:
  explicit Runs(const std::optional<Mp4Table>& table) : table_(table) {}
  // The next value; nothing behind the end.
  std::optional<uint32_t> next() {
    while (table_ && used_ == length_) {
      if (row_ == table_->count) return std::nullopt;
      length_ = table_->at(row_, 0);
      value_ = table_->at(row_++, 1);
      used_ = 0;
    }
    if (!table_) return std::nullopt;
    ++used_;
    return value_;
  }

 private:
  const std::optional<Mp4Table>& table_;
  size_t row_ = 0;
  uint32_t length_ = 0;
  uint32_t used_ = 0;
  uint32_t value_ = 0;
};

// Sizes: one for all, or one each.
struct Sizes {
  int64_t count = 0;
  uint32_t all = 0;
  std::string_view each;
  int64_t at(int64_t i) const { return all > 0 ? all : big_u32(each, static_cast<size_t>(i) * 4); }
};

Result<Sizes> sizes_of(const Mp4Tables& tables, const VideoLimits& limits) {
  Sizes sizes;
  if (tables.sizes.empty()) return sizes;
  if (!holds(tables.sizes, 0, 12)) return bad_data("mp4 is damaged: stsz is cut");
  sizes.all = big_u32(tables.sizes, 4);
  sizes.count = big_u32(tables.sizes, 8);
  sizes.each = tables.sizes.substr(12);
  OVERLORD_RETURN_IF_ERROR(
      within_limit("clip", "number of frames", sizes.count, "max_frames", limits.frames));
  if (sizes.all == 0 && !holds(sizes.each, 0, static_cast<size_t>(sizes.count) * 4)) {
    return bad_data("mp4 is damaged: stsz promises " + std::to_string(sizes.count) +
                    " frames and is cut");
  }
  return sizes;
}

// Places, from chunks of samples that lie behind each other.
Status lay_samples(const Mp4Tables& tables, const Sizes& sizes, int64_t blob,
                   std::vector<VideoSample>* samples) {
  if (sizes.count == 0) return {};
  if (!tables.chunks || !tables.runs || tables.runs->count == 0) {
    return bad_data("mp4 is damaged: it does not say where its frames are");
  }
  const Mp4Table& chunks = *tables.chunks;
  const Mp4Table& runs = *tables.runs;
  samples->reserve(static_cast<size_t>(sizes.count));
  size_t run = 0;
  for (size_t chunk = 0; chunk < chunks.count; ++chunk) {
    while (run + 1 < runs.count && runs.at(run + 1, 0) <= chunk + 1) ++run;
    int64_t offset = chunks.at(chunk, 0);
    if (chunks.row == 8) {
      offset = static_cast<int64_t>(
          std::min<uint64_t>(big_u64(chunks.rows, chunk * 8), static_cast<uint64_t>(blob)));
    }
    for (uint32_t i = 0; i < runs.at(run, 1); ++i) {
      const auto index = static_cast<int64_t>(samples->size());
      if (index == sizes.count) return {};
      VideoSample sample;
      sample.offset = offset;
      sample.size = sizes.at(index);
      offset += sample.size;
      if (offset > blob) return sample_outside(index, offset, blob);
      samples->push_back(sample);
    }
  }
  if (static_cast<int64_t>(samples->size()) == sizes.count) return {};
  return bad_data("mp4 is damaged: " + std::to_string(sizes.count) +
                  " frames are promised, its chunks hold " + std::to_string(samples->size()));
}

void time_samples(const Mp4Tables& tables, std::vector<VideoSample>* samples) {
  Runs durations(tables.durations);
  Runs delays(tables.delays);
  int64_t now = 0;
  uint32_t duration = 0;
  for (VideoSample& sample : *samples) {
    duration = durations.next().value_or(duration);  // the last one holds on
    sample.time = now + static_cast<int32_t>(delays.next().value_or(0));
    sample.duration = duration;
    sample.key = !tables.keys;
    now += duration;
  }
  for (size_t i = 0; tables.keys && i < tables.keys->count; ++i) {
    const uint32_t number = tables.keys->at(i, 0);
    if (number >= 1 && number <= samples->size()) (*samples)[number - 1].key = true;
  }
}

// Leaves out what the edit list does: frames that only help to decode others.
void cut_by_edit(const Mp4Tables& tables, std::vector<VideoSample>* samples) {
  if (!tables.edit) return;
  Int128 end = Int128{1} << 100;
  if (tables.edit->length && tables.movie_timescale > 0) {
    // The edit's length is rounded to the movie's coarser clock: one of its ticks is let through.
    end = tables.edit->start +
          ceil_div((Int128{*tables.edit->length} + 1) * tables.timescale, tables.movie_timescale);
  }
  for (VideoSample& sample : *samples) {
    sample.shown = sample.time >= tables.edit->start && sample.time < end;
  }
}

// --- Fragments ---------------------------------------------------------------------------------
// One `traf`: runs of samples with what the defaults leave open.
class Fragment {
 public:
  Fragment(const Mp4Tables& tables, const VideoLimits& limits, int64_t blob, int64_t moof,
           int64_t* now, std::vector<VideoSample>* samples)
      : limits_(limits),
        blob_(blob),
        moof_(moof),
        base_(moof),
        now_(now),
        samples_(samples),
        id_(tables.track_id),
        duration_(tables.fragment_duration),
        size_(tables.fragment_size),
        flags_(tables.fragment_flags) {}

  Status take(std::string_view traf) {
    Mp4Boxes boxes(traf, "traf");
    bool ours = false;
    while (boxes.more()) {
      OVERLORD_TRY(const Mp4Box box, boxes.next());
      if (box.type == "tfhd") {
        OVERLORD_TRY(ours, take_header(box.body));
      }
      if (!ours) continue;
      if (box.type == "tfdt") {
        const bool wide = !box.body.empty() && byte_at(box.body, 0) == 1;
        if (!holds(box.body, 4, wide ? 8 : 4)) return damaged("tfdt");
        const uint64_t time = wide ? big_u64(box.body, 4) : big_u32(box.body, 4);
        *now_ = static_cast<int64_t>(std::min<uint64_t>(time, uint64_t{1} << 53));
      }
      if (box.type == "trun") OVERLORD_RETURN_IF_ERROR(take_run(box.body));
    }
    return {};
  }

 private:
  static Status damaged(std::string_view box) {
    return bad_data("mp4 is damaged: " + std::string(box) + " is cut");
  }

  Result<bool> take_header(std::string_view body) {
    if (!holds(body, 0, 8)) return damaged("tfhd");
    if (big_u32(body, 4) != id_) return false;
    const uint32_t set = big_u32(body, 0) & 0xFFFFFF;
    size_t at = 8;
    const auto field = [&](uint32_t bit, size_t bytes, uint64_t* to) {
      if ((set & bit) == 0) return true;
      if (!holds(body, at, bytes)) return false;
      *to = bytes == 8 ? big_u64(body, at) : big_u32(body, at);
      at += bytes;
      return true;
    };
    uint64_t base = static_cast<uint64_t>(moof_);
    uint64_t skipped = 0;
    uint64_t values[] = {duration_, size_, flags_};
    if (!field(0x1, 8, &base) || !field(0x2, 4, &skipped) || !field(0x8, 4, &values[0]) ||
        !field(0x10, 4, &values[1]) || !field(0x20, 4, &values[2])) {
      return damaged("tfhd");
    }
    base_ = static_cast<int64_t>(std::min<uint64_t>(base, static_cast<uint64_t>(blob_)));
    duration_ = static_cast<uint32_t>(values[0]);
    size_ = static_cast<uint32_t>(values[1]);
    flags_ = static_cast<uint32_t>(values[2]);
    return true;
  }

  Status take_run(std::string_view body) {
    if (!holds(body, 0, 8)) return damaged("trun");
    const uint32_t set = big_u32(body, 0) & 0xFFFFFF;
    const int64_t count = big_u32(body, 4);
    const int64_t frames = static_cast<int64_t>(samples_->size()) + count;
    OVERLORD_RETURN_IF_ERROR(
        within_limit("clip", "number of frames", frames, "max_frames", limits_.frames));
    size_t at = 8;
    const auto field = [&](uint32_t bit, uint32_t* to) {
      if ((set & bit) == 0) return true;
      if (!holds(body, at, 4)) return false;
      *to = big_u32(body, at);
      at += 4;
      return true;
    };
    uint32_t place = 0;
    uint32_t first_flags = flags_;
    if (!field(0x1, &place) || !field(0x4, &first_flags)) return damaged("trun");
    if ((set & 0x1) != 0) offset_ = base_ + static_cast<int32_t>(place);
    if (offset_ < 0) offset_ = base_;
    for (int64_t i = 0; i < count; ++i) {
      uint32_t duration = duration_;
      uint32_t size = size_;
      uint32_t flags = i == 0 ? first_flags : flags_;
      uint32_t delay = 0;
      if (!field(0x100, &duration) || !field(0x200, &size) || !field(0x400, &flags) ||
          !field(0x800, &delay)) {
        return damaged("trun");
      }
      const auto index = static_cast<int64_t>(samples_->size());
      if (offset_ < 0 || offset_ > blob_ - size) {
        return sample_outside(index, offset_ + size, blob_);
      }
      samples_->push_back({*now_ + static_cast<int32_t>(delay), duration, offset_, size,
                           (flags & 0x10000) == 0, true});
      offset_ += size;
      *now_ += duration;
    }
    return {};
  }

  const VideoLimits& limits_;
  int64_t blob_;
  int64_t moof_;
  int64_t base_;
  int64_t* now_;
  std::vector<VideoSample>* samples_;
  uint32_t id_;
  uint32_t duration_;
  uint32_t size_;
  uint32_t flags_;
  int64_t offset_ = -1;  // of the next sample; behind the last run where none is given
};

Status take_fragments(const BlobHead& blob, const TopBoxes& top, const Mp4Tables& tables,
                      const VideoLimits& limits, std::vector<VideoSample>* samples) {
  if (!blob.whole()) {
    return bad_data("mp4 is fragmented and its moov box lies behind; it is read only as a whole");
  }
  int64_t now = 0;
  if (!samples->empty()) now = samples->back().time + samples->back().duration;
  for (const uint64_t at : top.fragments) {
    Mp4Boxes here(blob.head.substr(at), "the file");
    OVERLORD_TRY(const Mp4Box moof, here.next());
    Mp4Boxes boxes(moof.body, "moof");
    while (boxes.more()) {
      OVERLORD_TRY(const Mp4Box box, boxes.next());
      if (box.type != "traf") continue;
      Fragment fragment(tables, limits, static_cast<int64_t>(blob.size_bytes),
                        static_cast<int64_t>(at), &now, samples);
      OVERLORD_RETURN_IF_ERROR(fragment.take(box.body));
    }
  }
  return {};
}

}  // namespace

Result<BlobNeed> mp4_probe_need(const BlobHead& blob) {
  OVERLORD_TRY(const TopBoxes top, walk_top(blob));
  if (!top.moov) {
    if (!top.unread) return bad_data("mp4 has no moov box, which describes its frames");
    return *top.unread;
  }
  OVERLORD_TRY(const Mp4Tables tables, read_mp4_tables(*top.moov, {}));
  return tables.fragmented ? blob.rest() : BlobNeed{};
}

Result<VideoTrack> read_mp4_track(const BlobHead& blob, const VideoLimits& limits) {
  OVERLORD_TRY(const TopBoxes top, walk_top(blob));
  if (!top.moov) return bad_data("mp4 has no moov box, which describes its frames");
  OVERLORD_TRY(const Mp4Tables tables, read_mp4_tables(*top.moov, limits));
  VideoTrack track;
  track.header.coding = *tables.coding;
  track.header.width = tables.width;
  track.header.height = tables.height;
  track.header.rotation = tables.rotation;
  track.header.tick_num = 1;
  track.header.tick_den = tables.timescale;
  track.setup = tables.setup;
  OVERLORD_TRY(const Sizes sizes, sizes_of(tables, limits));
  OVERLORD_RETURN_IF_ERROR(
      lay_samples(tables, sizes, static_cast<int64_t>(blob.size_bytes), &track.samples));
  time_samples(tables, &track.samples);
  if (tables.fragmented) {
    OVERLORD_RETURN_IF_ERROR(take_fragments(blob, top, tables, limits, &track.samples));
  }
  cut_by_edit(tables, &track.samples);
  return track;
}

}  // namespace overlord::media
