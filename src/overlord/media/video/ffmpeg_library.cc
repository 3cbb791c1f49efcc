#include "overlord/media/video/ffmpeg_library.h"

#ifdef OVERLORD_HAS_VIDEO

#include <dlfcn.h>

namespace overlord::media {
namespace {

template <typename Function>
bool take(void* library, const char* name, Function* to) {
  *to = reinterpret_cast<Function>(dlsym(library, name));
  return *to != nullptr;
}

Result<const FfmpegLibrary*> load() {
  const std::string util_name = "libavutil.so." + std::to_string(LIBAVUTIL_VERSION_MAJOR);
  const std::string codec_name = "libavcodec.so." + std::to_string(LIBAVCODEC_VERSION_MAJOR);
  void* const util = dlopen(util_name.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const codec = dlopen(codec_name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (util == nullptr || codec == nullptr) {
    return invalid_argument("video cannot be decoded: " + util_name + " and " + codec_name +
                            " of FFmpeg, which this build was made for, are not there; install " +
                            ffmpeg_package() + " (`overlord doctor` lists the codecs)");
  }
  static FfmpegLibrary library;  // for the process's life, as what it points to
  FfmpegLibrary& f = library;
  f.util_handle = util;
  f.codec_handle = codec;
  const bool whole =
      take(codec, "avcodec_find_decoder", &f.find_decoder) &&
      take(codec, "avcodec_alloc_context3", &f.alloc_context) &&
      take(codec, "avcodec_free_context", &f.free_context) &&
      take(codec, "avcodec_open2", &f.open) && take(codec, "avcodec_send_packet", &f.send_packet) &&
      take(codec, "avcodec_receive_frame", &f.receive_frame) &&
      take(codec, "avcodec_flush_buffers", &f.flush) &&
      take(codec, "av_packet_alloc", &f.alloc_packet) &&
      take(codec, "av_packet_free", &f.free_packet) &&
      take(util, "av_frame_alloc", &f.alloc_frame) && take(util, "av_frame_free", &f.free_frame) &&
      take(util, "av_frame_unref", &f.unref_frame) && take(util, "av_mallocz", &f.alloc_bytes) &&
      take(util, "av_strerror", &f.error_text) &&
      take(util, "av_get_pix_fmt_name", &f.pixel_name) &&
      take(util, "av_log_set_level", &f.set_log_level) && take(util, "av_version_info", &f.version);
  if (!whole) {
    return invalid_argument("video cannot be decoded: " + codec_name +
                            " lacks functions that every FFmpeg has");
  }
  // What a decoder has to say comes back as a Status; foreign files would fill the log.
  f.set_log_level(AV_LOG_QUIET);
  return &library;
}

}  // namespace

Result<const FfmpegLibrary*> ffmpeg_library() {
  static const auto* const loaded = new Result<const FfmpegLibrary*>(load());
  return *loaded;
}

std::string ffmpeg_package() { return "libavcodec" + std::to_string(LIBAVCODEC_VERSION_MAJOR); }

std::string ffmpeg_error(const FfmpegLibrary& library, int code) {
  char text[AV_ERROR_MAX_STRING_SIZE] = {};
  library.error_text(code, text, sizeof text);
  return text;
}

}  // namespace overlord::media

#endif
