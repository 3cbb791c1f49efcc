#include "overlord/media/video/video_decode.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>

#include "overlord/base/enum_names.h"
#include "overlord/media/image/image_decode.h"
#include "overlord/media/refusals.h"
#include "overlord/media/video/ffmpeg_library.h"
#include "overlord/media/video/kept_clips.h"

namespace overlord::media {
namespace {

// A stretch of samples that is decoded in one go: from a key frame to the last wanted one.
struct Stretch {
  int64_t first = 0;
  int64_t last = 0;
  std::vector<size_t> wanted;  // places in the list of wanted frames
};

// The last key frame from which a sample can be decoded. Frames that are shown before it may lean
// on what was there before the key frame ("open" groups), so it must not be shown later. Where
// many key frames in a row are, the times make no sense: the first sample always serves.
int64_t key_before(const VideoTrack& track, std::span<const int64_t> keys, int64_t sample) {
  constexpr int kFarthest = 64;  // key frames back
  auto after = std::upper_bound(keys.begin(), keys.end(), sample);
  for (int back = 0; back < kFarthest && after != keys.begin(); ++back) {
    const int64_t key = *--after;
    if (track.samples[static_cast<size_t>(key)].time <=
        track.samples[static_cast<size_t>(sample)].time) {
      return key;
    }
  }
  return 0;
}

std::vector<Stretch> stretches_of(const VideoTrack& track, std::span<const int64_t> wanted) {
  std::vector<int64_t> keys;
  for (size_t i = 0; i < track.samples.size(); ++i) {
    if (track.samples[i].key) keys.push_back(static_cast<int64_t>(i));
  }
  std::vector<Stretch> out;
  std::map<int64_t, size_t> places;  // of stretches in `out`, by their first sample
  for (size_t i = 0; i < wanted.size(); ++i) {
    const int64_t first = key_before(track, keys, wanted[i]);
    const auto [place, fresh] = places.try_emplace(first, out.size());
    if (fresh) out.push_back({first, first, {}});
    Stretch& stretch = out[place->second];
    stretch.last = std::max(stretch.last, wanted[i]);
    stretch.wanted.push_back(i);
  }
  return out;
}

Status check_pixels(const VideoTrack& track, int64_t frames, const VideoLimits& limits) {
  const int64_t work = frames * track.header.width * track.header.height;
  return within_limit("clip", "number of pixels that would have to be decoded", work, "max_work",
                      limits.work);
}

Status check_work(const VideoTrack& track, std::span<const Stretch> stretches,
                  const VideoLimits& limits) {
  int64_t frames = 0;
  for (const Stretch& stretch : stretches) frames += stretch.last - stretch.first + 1;
  return check_pixels(track, frames, limits);
}

#ifdef OVERLORD_HAS_VIDEO

AVCodecID codec_id(VideoCoding coding) {
  switch (coding) {
    case VideoCoding::kH264:
      return AV_CODEC_ID_H264;
    case VideoCoding::kHevc:
      return AV_CODEC_ID_HEVC;
    case VideoCoding::kVp8:
      return AV_CODEC_ID_VP8;
    case VideoCoding::kVp9:
      return AV_CODEC_ID_VP9;
    case VideoCoding::kAv1:
      return AV_CODEC_ID_AV1;
    case VideoCoding::kMpeg4:
      return AV_CODEC_ID_MPEG4;
  }
  return AV_CODEC_ID_NONE;
}

// How many frames are decoded before one that is shown ahead of them, at most: what a decoder has
// to hold back. Told up front, it drops nothing while it finds out.
int32_t reordering(const VideoTrack& track) {
  constexpr size_t kMost = 16;
  std::vector<int64_t> held;  // times that are larger than one that follows, ascending
  size_t most = 0;
  for (const VideoSample& sample : track.samples) {
    const auto later = std::upper_bound(held.begin(), held.end(), sample.time);
    most = std::max(most, static_cast<size_t>(held.end() - later));
    held.insert(later, sample.time);
    if (held.size() > kMost + 1) held.erase(held.begin());
  }
  return static_cast<int32_t>(std::min(most, kMost));
}

// The planes of a frame, or a Status for what is not read. Deeper samples are rounded into `room`.
class FramePlanes {
 public:
  Result<YuvFrame> of(const FfmpegLibrary& library, const AVFrame& frame) {
    struct Kind {
      AVPixelFormat format;
      int32_t planes, half_columns, half_rows, bits;
      bool full;
    };
    static constexpr Kind kKinds[] = {
        {AV_PIX_FMT_YUV420P, 3, 1, 1, 8, false},      {AV_PIX_FMT_YUVJ420P, 3, 1, 1, 8, true},
        {AV_PIX_FMT_YUV422P, 3, 1, 0, 8, false},      {AV_PIX_FMT_YUVJ422P, 3, 1, 0, 8, true},
        {AV_PIX_FMT_YUV444P, 3, 0, 0, 8, false},      {AV_PIX_FMT_YUVJ444P, 3, 0, 0, 8, true},
        {AV_PIX_FMT_YUV440P, 3, 0, 1, 8, false},      {AV_PIX_FMT_GRAY8, 1, 0, 0, 8, false},
        {AV_PIX_FMT_GBRP, 3, 0, 0, 8, true},          {AV_PIX_FMT_YUV420P10LE, 3, 1, 1, 10, false},
        {AV_PIX_FMT_YUV422P10LE, 3, 1, 0, 10, false}, {AV_PIX_FMT_YUV444P10LE, 3, 0, 0, 10, false},
        {AV_PIX_FMT_YUV420P12LE, 3, 1, 1, 12, false}, {AV_PIX_FMT_GRAY10LE, 1, 0, 0, 10, false},
    };
    const auto* const kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                          [&](const Kind& k) { return k.format == frame.format; });
    if (kind == std::end(kKinds)) {
      const char* const name = library.pixel_name(static_cast<AVPixelFormat>(frame.format));
      return bad_data("clip has pixels of an unsupported layout: " +
                      std::string(name == nullptr ? "unknown" : name));
    }
    YuvFrame out;
    out.width = frame.width;
    out.height = frame.height;
    out.planes = kind->planes;
    out.half_columns = kind->half_columns;
    out.half_rows = kind->half_rows;
    out.full_range = kind->full || frame.color_range == AVCOL_RANGE_JPEG;
    out.matrix = matrix_of(frame);
    for (size_t i = 0; i < static_cast<size_t>(kind->planes); ++i) {
      out.data[i] = frame.data[i];
      out.strides[i] = frame.linesize[i];
    }
    if (kind->bits > 8) shorten(kind->bits, &out);
    return out;
  }

 private:
  static ColourMatrix matrix_of(const AVFrame& frame) {
    if (frame.format == AV_PIX_FMT_GBRP) return ColourMatrix::kNone;
    switch (frame.colorspace) {
      case AVCOL_SPC_BT709:
        return ColourMatrix::kBt709;
      case AVCOL_SPC_BT2020_NCL:
      case AVCOL_SPC_BT2020_CL:
        return ColourMatrix::kBt2020;
      default:
        return ColourMatrix::kBt601;
    }
  }

  void shorten(int32_t bits, YuvFrame* frame) {
    const int32_t drop = bits - 8;
    for (size_t i = 0; i < static_cast<size_t>(frame->planes); ++i) {
      const ImageView plane = frame->plane(static_cast<int32_t>(i));
      std::vector<uint8_t>& to = room_[i];
      to.resize(static_cast<size_t>(plane.width) * static_cast<size_t>(plane.height));
      uint8_t* out = to.data();
      for (int32_t y = 0; y < plane.height; ++y) {
        const auto* const from = reinterpret_cast<const uint16_t*>(plane.row(y));
        for (int32_t x = 0; x < plane.width; ++x) {
          *out++ = static_cast<uint8_t>(std::min((from[x] + (1 << (drop - 1))) >> drop, 255));
        }
      }
      frame->data[i] = to.data();
      frame->strides[i] = plane.width;
    }
  }

  std::vector<uint8_t> room_[3];
};

// An open decoder of one clip.
class Decoder {
 public:
  Decoder(const FfmpegLibrary& library, std::string_view bytes, const VideoTrack& track,
          std::span<const int64_t> wanted, const FrameTaker& take)
      : library_(library),
        bytes_(bytes),
        track_(track),
        wanted_(wanted),
        take_(take),
        taken_(wanted.size(), false) {}
  ~Decoder() {
    library_.free_context(&context_);
    library_.free_packet(&packet_);
    library_.free_frame(&frame_);
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  Status open(const VideoDecodeOptions& options) {
    const AVCodec* const codec = library_.find_decoder(codec_id(track_.header.coding));
    if (codec == nullptr) {
      return invalid_argument("the FFmpeg of this machine has no decoder for " +
                              enum_name(track_.header.coding));
    }
    context_ = library_.alloc_context(codec);
    packet_ = library_.alloc_packet();
    frame_ = library_.alloc_frame();
    if (context_ == nullptr || packet_ == nullptr || frame_ == nullptr) return no_memory();
    context_->width = track_.header.width;
    context_->height = track_.header.height;
    context_->max_pixels = options.limits.pixels;
    context_->thread_count = options.threads;
    context_->has_b_frames = reordering(track_);
    // Damage is an error, not something to paint over. Concealment stays on for its bookkeeping,
    // which without it marks frames of several slices as damaged; what it touched is refused.
    context_->err_recognition = AV_EF_CRCCHECK | AV_EF_BITSTREAM | AV_EF_BUFFER | AV_EF_EXPLODE;
    context_->flags |= AV_CODEC_FLAG_BITEXACT;
    const size_t setup = track_.setup.size();
    if (setup > 0) {
      context_->extradata =
          static_cast<uint8_t*>(library_.alloc_bytes(setup + AV_INPUT_BUFFER_PADDING_SIZE));
      if (context_->extradata == nullptr) return no_memory();
      std::copy(track_.setup.begin(), track_.setup.end(), context_->extradata);
      context_->extradata_size = static_cast<int>(setup);
    }
    const int code = library_.open(context_, codec, nullptr);
    return code < 0 ? undecodable(code) : Status();
  }

  // Whether all of the stretch's frames came. `from_start`: without trust in its key frame.
  Status run(const Stretch& stretch, bool from_start) {
    const int64_t first = from_start ? 0 : stretch.first;
    const auto samples = std::span(track_.samples);
    std::vector<int64_t> whole;  // samples that must be decoded whatever refers to them
    missing_.clear();
    for (const size_t which : stretch.wanted) {
      whole.push_back(wanted_[which]);
      if (!taken_[which]) {
        missing_.emplace(samples[static_cast<size_t>(wanted_[which])].time, which);
      }
    }
    std::sort(whole.begin(), whole.end());
    const int64_t key_time = samples[static_cast<size_t>(first)].time;
    for (int64_t i = first; i <= stretch.last; ++i) {
      const VideoSample& sample = samples[static_cast<size_t>(i)];
      // Shown before the key frame: leans on frames that were not decoded, and nothing leans on it.
      if (sample.size == 0 || (!from_start && sample.time < key_time)) continue;
      const bool wanted = std::binary_search(whole.begin(), whole.end(), i);
      context_->skip_frame = wanted ? AVDISCARD_DEFAULT : AVDISCARD_NONREF;
      OVERLORD_RETURN_IF_ERROR(feed(sample));
    }
    OVERLORD_RETURN_IF_ERROR(drain());
    if (!missing_.empty()) {
      return bad_data("clip is cut or damaged: its frame at tick " +
                      std::to_string(missing_.begin()->first) +
                      " does not come out of the decoder");
    }
    return {};
  }

  void flush() { library_.flush(context_); }

 private:
  static Status no_memory() { return {Code::kResource, "no memory for a video decoder"}; }
  Status undecodable(int code) const {
    return bad_data(enum_name(track_.header.coding) +
                    " cannot be decoded: " + ffmpeg_error(library_, code));
  }

  Status feed(const VideoSample& sample) {
    // Without a buffer of its own the packet is copied, with the padding that decoders read into.
    packet_->data = reinterpret_cast<uint8_t*>(const_cast<char*>(bytes_.data() + sample.offset));
    packet_->size = static_cast<int>(sample.size);
    packet_->pts = sample.time;
    packet_->dts = AV_NOPTS_VALUE;
    packet_->duration = 0;
    packet_->flags = sample.key ? AV_PKT_FLAG_KEY : 0;
    int code = library_.send_packet(context_, packet_);
    if (code == AVERROR(EAGAIN)) {
      OVERLORD_RETURN_IF_ERROR(collect());
      code = library_.send_packet(context_, packet_);
    }
    if (code < 0) return undecodable(code);
    return collect();
  }

  Status drain() {
    const int code = library_.send_packet(context_, nullptr);
    if (code < 0 && code != AVERROR_EOF) return undecodable(code);
    return collect();
  }

  // Takes what the decoder has ready.
  Status collect() {
    for (;;) {
      const int code = library_.receive_frame(context_, frame_);
      if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) return {};
      if (code < 0) return undecodable(code);
      const Status status = look_at();
      library_.unref_frame(frame_);
      OVERLORD_RETURN_IF_ERROR(status);
    }
  }

  Status look_at() {
    for (auto next = missing_.find(frame_->pts);
         next != missing_.end() && next->first == frame_->pts; next = missing_.erase(next)) {
      if (frame_->width != track_.header.width || frame_->height != track_.header.height) {
        return bad_data("clip contradicts its header: frames of " +
                        std::to_string(track_.header.width) + "x" +
                        std::to_string(track_.header.height) + " are promised, the decoder gives " +
                        std::to_string(frame_->width) + "x" + std::to_string(frame_->height));
      }
      if (frame_->decode_error_flags != 0 || (frame_->flags & AV_FRAME_FLAG_CORRUPT) != 0) {
        return bad_data("clip is damaged at tick " + std::to_string(next->first));
      }
      OVERLORD_TRY(const YuvFrame planes, planes_.of(library_, *frame_));
      taken_[next->second] = true;
      OVERLORD_RETURN_IF_ERROR(take_(next->second, planes));
    }
    return {};
  }

  const FfmpegLibrary& library_;
  std::string_view bytes_;
  const VideoTrack& track_;
  std::span<const int64_t> wanted_;
  const FrameTaker& take_;
  std::vector<bool> taken_;
  std::multimap<int64_t, size_t> missing_;  // of this run: times of wanted frames, and which
  AVCodecContext* context_ = nullptr;
  AVPacket* packet_ = nullptr;
  AVFrame* frame_ = nullptr;
  FramePlanes planes_;
};

#endif

}  // namespace

std::vector<int64_t> shown_order(const VideoTrack& track) {
  std::vector<int64_t> order;
  order.reserve(static_cast<size_t>(track.header.frames));
  for (size_t i = 0; i < track.samples.size(); ++i) {
    if (track.samples[i].shown) order.push_back(static_cast<int64_t>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return track.samples[static_cast<size_t>(a)].time < track.samples[static_cast<size_t>(b)].time;
  });
  return order;
}

#ifdef OVERLORD_HAS_VIDEO

Status decode_frames(std::string_view bytes, const VideoTrack& track,
                     std::span<const int64_t> wanted, const VideoDecodeOptions& options,
                     const FrameTaker& take) {
  OVERLORD_TRY(const FfmpegLibrary* const library, ffmpeg_library());
  const std::vector<Stretch> stretches = stretches_of(track, wanted);
  OVERLORD_RETURN_IF_ERROR(check_work(track, stretches, options.limits));
  Decoder decoder(*library, bytes, track, wanted, take);
  OVERLORD_RETURN_IF_ERROR(decoder.open(options));
  int64_t again = 0;  // frames of second tries
  for (size_t i = 0; i < stretches.size(); ++i) {
    if (i > 0) decoder.flush();
    const Status status = decoder.run(stretches[i], false);
    if (status.ok()) continue;
    if (stretches[i].first == 0) return status;
    // Some streams mark frames as keys from which a picture only heals with time. Clips of
    // nothing but such frames would be decoded over and over: that is work like any other.
    again += stretches[i].last + 1;
    OVERLORD_RETURN_IF_ERROR(check_pixels(track, again, options.limits));
    decoder.flush();
    if (!decoder.run(stretches[i], true).ok()) return status;
  }
  return {};
}

Status video_library() { return ffmpeg_library().status(); }

std::string video_library_version() {
  const auto library = ffmpeg_library();
  return library.ok() ? (*library)->version() : "";
}

std::string video_package() { return ffmpeg_package(); }

Digest video_fingerprint() {
  Digest digest = digest_of(kClipRules);
  for (const std::string_view clip : kept_clips()) {
    const auto track = read_video_track(BlobHead::all_of(clip), {});
    if (!track.ok()) return {};
    const std::vector<int64_t> order = shown_order(*track);
    YuvScratch scratch;
    std::vector<Image> images(order.size());
    const ImageSize size{track->header.width, track->header.height};
    const Status status =
        decode_frames(clip, *track, order, {}, [&](size_t which, const YuvFrame& frame) {
          yuv_to_rgb(frame, size, {0, 0, size.width, size.height}, ResizeFilter::kBicubic, scratch,
                     &images[which]);
          return Status();
        });
    if (!status.ok()) return {};
    for (const Image& image : images) {
      digest = chain(digest, digest_of(image.samples.data(), image.size_bytes()));
    }
  }
  return digest;
}

#else

Status decode_frames(std::string_view, const VideoTrack& track, std::span<const int64_t> wanted,
                     const VideoDecodeOptions& options, const FrameTaker&) {
  OVERLORD_RETURN_IF_ERROR(check_work(track, stretches_of(track, wanted), options.limits));
  return codec_absent("video", "libavcodec-dev");
}

Status video_library() { return codec_absent("video", "libavcodec-dev"); }

std::string video_library_version() { return ""; }

std::string video_package() { return ""; }

Digest video_fingerprint() { return {}; }

#endif

}  // namespace overlord::media
