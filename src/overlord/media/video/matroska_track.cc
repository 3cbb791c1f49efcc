// Matroska and WebM: elements of an id, a size and a body. Segments and clusters are stepped into
// rather than nested, which reads those of unknown size (written to a pipe) like any other.
#include <optional>
#include <string>

#include "overlord/media/byte_view.h"
#include "overlord/media/refusals.h"
#include "overlord/media/video/video_track.h"
#include "overlord/runtime/quote.h"

namespace overlord::media {
namespace {

constexpr uint32_t kSegment = 0x18538067;
constexpr uint32_t kInfo = 0x1549A966;
constexpr uint32_t kTimestampScale = 0x2AD7B1;
constexpr uint32_t kTracks = 0x1654AE6B;
constexpr uint32_t kTrackEntry = 0xAE;
constexpr uint32_t kTrackNumber = 0xD7;
constexpr uint32_t kTrackType = 0x83;
constexpr uint32_t kCodecId = 0x86;
constexpr uint32_t kCodecPrivate = 0x63A2;
constexpr uint32_t kDefaultDuration = 0x23E383;
constexpr uint32_t kContentEncodings = 0x6D80;
constexpr uint32_t kVideo = 0xE0;
constexpr uint32_t kPixelWidth = 0xB0;
constexpr uint32_t kPixelHeight = 0xBA;
constexpr uint32_t kCluster = 0x1F43B675;
constexpr uint32_t kClusterTime = 0xE7;
constexpr uint32_t kSimpleBlock = 0xA3;
constexpr uint32_t kBlockGroup = 0xA0;
constexpr uint32_t kBlock = 0xA1;
constexpr uint32_t kReferenceBlock = 0xFB;
constexpr uint32_t kBlockDuration = 0x9B;

// Numbers of tracks that blocks name in one byte; nobody writes more tracks than that.
constexpr uint64_t kMostTracks = 126;

struct Element {
  uint32_t id = 0;
  bool unknown_size = false;
  std::string_view body;  // what is left where the size is unknown
};

Status cut(size_t at) {
  return bad_data("matroska is cut or damaged: the element at byte " + std::to_string(at) +
                  " has no sense or no end");
}

// Elements of a body, one after the other.
class Elements {
 public:
  // `start`: where `body` lies in the blob, for messages.
  Elements(std::string_view body, size_t start) : body_(body), start_(start) {}

  bool done() const { return at_ >= body_.size(); }

  // `steps_into`: whether an element of this id is entered instead of skipped.
  template <typename StepsInto>
  Result<Element> next(const StepsInto& steps_into) {
    const size_t begin = at_;
    Element element;
    std::optional<uint64_t> id = number(4, true);
    if (!id) return cut(start_ + begin);
    element.id = static_cast<uint32_t>(*id);
    const std::optional<uint64_t> size = number(8, false);
    if (!size) return cut(start_ + begin);
    element.unknown_size = *size == UINT64_MAX;
    if (steps_into(element.id)) return element;
    if (element.unknown_size || *size > body_.size() - at_) return cut(start_ + begin);
    element.body = body_.substr(at_, *size);
    at_ += *size;
    return element;
  }
  Result<Element> next() {
    return next([](uint32_t) { return false; });
  }

 private:
  // A number whose first byte tells its length by its leading zeros; UINT64_MAX: all bits set.
  std::optional<uint64_t> number(size_t longest, bool keep_marker) {
    if (!holds(body_, at_, 1)) return std::nullopt;
    const uint32_t first = byte_at(body_, at_);
    size_t length = 1;
    while (length <= longest && (first & (0x80U >> (length - 1))) == 0) ++length;
    if (length > longest || !holds(body_, at_, length)) return std::nullopt;
    const uint32_t marker = 0x80U >> (length - 1);
    uint64_t value = keep_marker ? first : first & (marker - 1);
    bool all_ones = (first & (marker - 1)) == marker - 1;
    for (size_t i = 1; i < length; ++i) {
      const uint32_t byte = byte_at(body_, at_ + i);
      value = value << 8 | byte;
      all_ones = all_ones && byte == 0xFF;
    }
    at_ += length;
    return all_ones && !keep_marker ? UINT64_MAX : value;
  }

  std::string_view body_;
  size_t start_;
  size_t at_ = 0;
};

uint64_t unsigned_of(std::string_view body) {
  uint64_t value = 0;
  for (size_t i = 0; i < body.size() && i < 8; ++i) value = value << 8 | byte_at(body, i);
  return value;
}

int64_t bounded(uint64_t value, int64_t most) {
  return value > static_cast<uint64_t>(most) ? most : static_cast<int64_t>(value);
}

struct CodecName {
  std::string_view id;
  VideoCoding coding;
};
constexpr CodecName kCodecs[] = {
    {"V_MPEG4/ISO/AVC", VideoCoding::kH264},
    {"V_MPEGH/ISO/HEVC", VideoCoding::kHevc},
    {"V_VP8", VideoCoding::kVp8},
    {"V_VP9", VideoCoding::kVp9},
    {"V_AV1", VideoCoding::kAv1},
    {"V_MPEG4/ISO/ASP", VideoCoding::kMpeg4},
    {"V_MPEG4/ISO/SP", VideoCoding::kMpeg4},
};

// Reads one clip; the state of the walk.
class Matroska {
 public:
  Matroska(std::string_view bytes, const VideoLimits& limits) : bytes_(bytes), limits_(limits) {}

  Result<VideoTrack> read() {
    Elements elements(bytes_, 0);
    while (!elements.done()) {
      OVERLORD_TRY(const Element element,
                   elements.next([](uint32_t id) { return id == kSegment || id == kCluster; }));
      OVERLORD_RETURN_IF_ERROR(take(element));
    }
    if (number_ == 0) return bad_data("matroska has no video track");
    track_.header.tick_num = scale_;
    track_.header.tick_den = 1'000'000'000;
    if (!track_.samples.empty() && track_.samples.back().duration == 0 && default_ns_ > 0) {
      for (VideoSample& sample : track_.samples) {
        sample.duration = (default_ns_ + scale_ / 2) / scale_;
      }
    }
    return std::move(track_);
  }

 private:
  size_t place(std::string_view body) const {
    return static_cast<size_t>(body.data() - bytes_.data());
  }

  Status take(const Element& element) {
    switch (element.id) {
      case kInfo:
        return take_info(element.body);
      case kTracks:
        return take_tracks(element.body);
      case kClusterTime:
        cluster_time_ = bounded(unsigned_of(element.body), int64_t{1} << 50);
        return {};
      case kSimpleBlock:
        return take_block(element.body, true, 0);
      case kBlockGroup:
        return take_group(element.body);
      default:
        return {};
    }
  }

  Status take_info(std::string_view body) {
    Elements elements(body, place(body));
    while (!elements.done()) {
      OVERLORD_TRY(const Element element, elements.next());
      if (element.id == kTimestampScale) {
        scale_ = bounded(unsigned_of(element.body), 1'000'000'000);
        if (scale_ == 0) return bad_data("matroska counts time in units of 0 ns");
      }
    }
    return {};
  }

  Status take_tracks(std::string_view body) {
    Elements elements(body, place(body));
    int64_t streams = 0;
    while (!elements.done()) {
      OVERLORD_TRY(const Element element, elements.next());
      if (element.id != kTrackEntry) continue;
      ++streams;
      OVERLORD_RETURN_IF_ERROR(
          within_limit("clip", "number of streams", streams, "max_streams", limits_.streams));
      if (number_ == 0) OVERLORD_RETURN_IF_ERROR(take_track(element.body));
    }
    return {};
  }

  Status take_track(std::string_view body) {
    Elements elements(body, place(body));
    uint64_t number = 0;
    uint64_t type = 0;
    int64_t default_ns = 0;
    bool encoded = false;
    std::string_view codec;
    std::string_view setup;
    std::string_view video;
    while (!elements.done()) {
      OVERLORD_TRY(const Element element, elements.next());
      if (element.id == kTrackNumber) number = unsigned_of(element.body);
      if (element.id == kTrackType) type = unsigned_of(element.body);
      if (element.id == kCodecId) codec = element.body;
      if (element.id == kCodecPrivate) setup = element.body;
      if (element.id == kVideo) video = element.body;
      if (element.id == kContentEncodings) encoded = true;
      if (element.id == kDefaultDuration) {
        default_ns = bounded(unsigned_of(element.body), int64_t{1} << 50);
      }
    }
    if (type != 1 || number == 0) return {};
    if (number > kMostTracks) {
      return bad_data("matroska numbers its video track " + std::to_string(number) + "; 1 to " +
                      std::to_string(kMostTracks) + " are read");
    }
    if (encoded) return bad_data("matroska compresses or encrypts its video track once more");
    while (codec.ends_with('\0')) codec.remove_suffix(1);
    const CodecName* known = nullptr;
    for (const CodecName& one : kCodecs) {
      if (one.id == codec) known = &one;
    }
    if (known == nullptr) {
      return bad_data("clip is of an unsupported coding: " + runtime::quote(codec) +
                      "; codings must be H.264, HEVC, VP8, VP9, AV1 or MPEG-4");
    }
    number_ = number;
    default_ns_ = default_ns;
    track_.header.coding = known->coding;
    track_.setup = setup;
    return take_size(video);
  }

  Status take_size(std::string_view body) {
    Elements elements(body, place(body));
    while (!elements.done()) {
      OVERLORD_TRY(const Element element, elements.next());
      const auto value = static_cast<int32_t>(bounded(unsigned_of(element.body), 1 << 20));
      if (element.id == kPixelWidth) track_.header.width = value;
      if (element.id == kPixelHeight) track_.header.height = value;
    }
    return {};
  }

  Status take_group(std::string_view body) {
    Elements elements(body, place(body));
    std::string_view block;
    bool key = true;
    int64_t duration = 0;
    while (!elements.done()) {
      OVERLORD_TRY(const Element element, elements.next());
      if (element.id == kBlock) block = element.body;
      if (element.id == kReferenceBlock) key = false;
      if (element.id == kBlockDuration) {
        duration = bounded(unsigned_of(element.body), int64_t{1} << 50);
      }
    }
    if (block.empty()) return {};
    const size_t before = track_.samples.size();
    OVERLORD_RETURN_IF_ERROR(take_block(block, false, duration));
    if (track_.samples.size() > before) track_.samples.back().key = key;
    return {};
  }

  Status take_block(std::string_view body, bool simple, int64_t duration) {
    if (!holds(body, 0, 4)) return cut(place(body));
    if (number_ == 0 || byte_at(body, 0) != (0x80U | number_)) return {};
    const uint32_t flags = byte_at(body, 3);
    if ((flags & 0x06) != 0) return bad_data("matroska laces video frames together");
    const auto frames = static_cast<int64_t>(track_.samples.size()) + 1;
    OVERLORD_RETURN_IF_ERROR(
        within_limit("clip", "number of frames", frames, "max_frames", limits_.frames));
    VideoSample sample;
    sample.time = cluster_time_ + static_cast<int16_t>(big_u16(body, 1));
    sample.duration = duration;
    sample.offset = static_cast<int64_t>(place(body) + 4);
    sample.size = static_cast<int64_t>(body.size() - 4);
    sample.key = simple && (flags & 0x80) != 0;
    sample.shown = (flags & 0x08) == 0;
    track_.samples.push_back(sample);
    return {};
  }

  std::string_view bytes_;
  const VideoLimits& limits_;
  VideoTrack track_;
  uint64_t number_ = 0;  // of the video track; 0: none yet
  int64_t scale_ = 1'000'000;
  int64_t default_ns_ = 0;
  int64_t cluster_time_ = 0;
};

}  // namespace

Result<VideoTrack> read_matroska_track(std::string_view bytes, const VideoLimits& limits) {
  return Matroska(bytes, limits).read();
}

}  // namespace overlord::media
