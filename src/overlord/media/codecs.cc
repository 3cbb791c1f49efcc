#include "overlord/media/codecs.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "overlord/media/audio/audio_decode.h"
#include "overlord/media/byte_view.h"
#include "overlord/media/image/image_decode.h"
#include "overlord/media/image/image_header.h"
#include "overlord/media/image/kept_pictures.h"
#include "overlord/media/video/video_decode.h"

#ifdef OVERLORD_HAS_JPEG
#include <cstdio>
// jpeglib.h wants cstdio before it.
#include <jpeglib.h>
#endif
#ifdef OVERLORD_HAS_PNG
#include <spng.h>
#endif
#ifdef OVERLORD_HAS_WEBP
#include <webp/decode.h>
#endif

namespace overlord::media {
namespace {

// Changes whenever our own pixel arithmetic gives other pixels than before.
constexpr std::string_view kPixelRules = "media/1";

// Zero where a kept picture cannot be decoded: a library that cannot do that is as good as absent.
Digest fingerprint(std::initializer_list<std::string_view> pictures) {
  Digest digest = digest_of(kPixelRules);
  DecodeScratch scratch;
  Image image;
  for (const std::string_view picture : pictures) {
    const Result<ImageHeader> header = probe_image(picture);
    if (!header.ok()) return {};
    const bool jpeg = header->format == ImageFormat::kJpeg;
    for (const int32_t divisor : {1, 2, 4, 8}) {
      if (divisor > 1 && !jpeg) break;
      if (!decode_image(picture, *header, {}, divisor, scratch, &image).ok()) return {};
      digest = chain(digest, digest_of(image.samples.data(), image.size_bytes()));
    }
  }
  return digest;
}

#define OVERLORD_TEXT_OF(x) #x
#define OVERLORD_TEXT(x) OVERLORD_TEXT_OF(x)

std::string jpeg_version() {
#ifdef OVERLORD_HAS_JPEG
  return OVERLORD_TEXT(LIBJPEG_TURBO_VERSION);
#else
  return "";
#endif
}

std::string png_version() {
#ifdef OVERLORD_HAS_PNG
  return spng_version_string();
#else
  return "";
#endif
}

std::string webp_version() {
#ifdef OVERLORD_HAS_WEBP
  const int version = WebPGetDecoderVersion();
  return std::to_string(version >> 16) + "." + std::to_string(version >> 8 & 0xFF) + "." +
         std::to_string(version & 0xFF);
#else
  return "";
#endif
}

char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

Codec codec_of(const char* name, const char* made_by, const char* package, std::string version,
               Digest (*decoded)()) {
  Codec codec{name, made_by, package, std::move(version), false, false, {}};
  codec.in_build = codec.present = !codec.version.empty();
  if (codec.present) codec.fingerprint = decoded();
  return codec;
}

std::vector<Codec> picture_codecs() {
  return {
      codec_of("jpeg", "libjpeg-turbo", "libjpeg-dev", jpeg_version(),
               [] { return fingerprint({bytes_of(kJpeg420), bytes_of(kJpegProgressive)}); }),
      codec_of("png", "libspng", "libspng-dev", png_version(),
               [] { return fingerprint({bytes_of(kPngColour)}); }),
      codec_of("webp", "libwebp", "libwebp-dev", webp_version(),
               [] { return fingerprint({bytes_of(kWebpLossy), bytes_of(kWebpLossless)}); }),
  };
}

// Video alone may be in the build and its library not on the machine.
Codec video_codec() {
  Codec codec =
      codec_of("video", "FFmpeg", "libavcodec-dev", video_library_version(), video_fingerprint);
  if (!video_package().empty()) {
    codec.in_build = true;
    codec.package = video_package();
  }
  return codec;
}

// By kind, so that FFmpeg is not loaded for a job without clips.
const std::vector<Codec>& codecs_of(model::MediaKind kind) {
  if (kind == model::MediaKind::kVideo) {
    static const auto* const video = new std::vector<Codec>{video_codec()};
    return *video;
  }
  if (kind == model::MediaKind::kAudio) {
    static const auto* const audio = new std::vector<Codec>{codec_of(
        "audio", "libsndfile", "libsndfile1-dev", audio_library_version(), audio_fingerprint)};
    return *audio;
  }
  static const auto* const pictures = new std::vector<Codec>(picture_codecs());
  return *pictures;
}

}  // namespace

const std::vector<Codec>& codecs() {
  static const auto* const all = [] {
    auto* const list = new std::vector<Codec>;
    for (const auto kind :
         {model::MediaKind::kImage, model::MediaKind::kAudio, model::MediaKind::kVideo}) {
      list->insert(list->end(), codecs_of(kind).begin(), codecs_of(kind).end());
    }
    return list;
  }();
  return *all;
}

Status require_codecs(model::MediaKind kind, std::span<const std::string> places) {
  if (kind == model::MediaKind::kVideo) return video_library();
  if (kind == model::MediaKind::kAudio) {
    return audio_library_version().empty() ? codec_absent("sounds", "libsndfile1-dev") : Status();
  }
  if (jpeg_version().empty() && png_version().empty() && webp_version().empty()) {
    return codec_absent("pictures", "libjpeg-dev, libspng-dev and libwebp-dev");
  }
  for (std::string place : places) {
    std::transform(place.begin(), place.end(), place.begin(), ascii_lower);
    if ((place == "jpg" || place == "jpeg") && jpeg_version().empty()) {
      return codec_absent("JPEG", "libjpeg-dev");
    }
    if (place == "png" && png_version().empty()) return codec_absent("PNG", "libspng-dev");
    if (place == "webp" && webp_version().empty()) return codec_absent("WebP", "libwebp-dev");
  }
  return {};
}

Digest codecs_fingerprint(model::MediaKind kind) {
  Digest digest = digest_of(kPixelRules);
  const auto add = [&digest](const std::string& name, const Digest& fingerprint) {
    digest = chain(chain(digest, digest_of(name)), fingerprint);
  };
  for (const Codec& codec : codecs_of(model::MediaKind::kImage)) add(codec.name, codec.fingerprint);
  for (const Codec& codec : codecs_of(model::MediaKind::kAudio)) add(codec.name, codec.fingerprint);
  const bool clips = kind == model::MediaKind::kVideo;
  add("video", clips ? codecs_of(kind).front().fingerprint : kVideoFingerprint);
  return digest;
}

}  // namespace overlord::media
