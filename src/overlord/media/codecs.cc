#include "overlord/media/codecs.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "overlord/media/audio_decode.h"
#include "overlord/media/image_decode.h"
#include "overlord/media/image_header.h"
#include "overlord/media/kept_pictures.h"
#include "overlord/media/video_decode.h"

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

template <size_t kSize>
std::string_view bytes_of(const uint8_t (&picture)[kSize]) {
  return {reinterpret_cast<const char*>(picture), kSize};
}

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
               std::initializer_list<std::string_view> pictures) {
  Codec codec{name, made_by, package, std::move(version), false, {}};
  codec.present = !codec.version.empty();
  if (codec.present) codec.fingerprint = fingerprint(pictures);
  return codec;
}

}  // namespace

const std::vector<Codec>& codecs() {
  static const auto* const list = new std::vector<Codec>{
      codec_of("jpeg", "libjpeg-turbo", "libjpeg-dev", jpeg_version(),
               {bytes_of(kJpeg420), bytes_of(kJpegProgressive)}),
      codec_of("png", "libspng", "libspng-dev", png_version(), {bytes_of(kPngColour)}),
      codec_of("webp", "libwebp", "libwebp-dev", webp_version(),
               {bytes_of(kWebpLossy), bytes_of(kWebpLossless)}),
      {"audio", "libsndfile", "libsndfile1-dev", audio_library_version(),
       !audio_library_version().empty(), audio_fingerprint()},
      {"video", "FFmpeg", "libavcodec-dev", video_library_version(),
       !video_library_version().empty(), video_fingerprint()},
  };
  return *list;
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

Digest codecs_fingerprint() {
  Digest digest = digest_of(kPixelRules);
  for (const Codec& codec : codecs()) {
    digest = chain(chain(digest, digest_of(codec.name)), codec.fingerprint);
  }
  return digest;
}

}  // namespace overlord::media
