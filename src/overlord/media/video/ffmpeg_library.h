// FFmpeg's decoders, loaded when the first clip is decoded and never linked: Debian's build brings
// 130 libraries along, which a process that sees no video should not load (0.2 s), and a wheel
// works where they are missing. Built against the headers of one major version, it loads that
// version and no other. Containers are read by our own code; libavformat is not used.
#pragma once

#ifdef OVERLORD_HAS_VIDEO

#include <string>

#include "overlord/base/status.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavutil/frame.h>
#include <libavutil/log.h>
#include <libavutil/mem.h>
#include <libavutil/pixdesc.h>
}

namespace overlord::media {

struct FfmpegLibrary {
  void* codec_handle = nullptr;  // what dlsym takes
  void* util_handle = nullptr;

  decltype(&::avcodec_find_decoder) find_decoder = nullptr;
  decltype(&::avcodec_alloc_context3) alloc_context = nullptr;
  decltype(&::avcodec_free_context) free_context = nullptr;
  decltype(&::avcodec_open2) open = nullptr;
  decltype(&::avcodec_send_packet) send_packet = nullptr;
  decltype(&::avcodec_receive_frame) receive_frame = nullptr;
  decltype(&::avcodec_flush_buffers) flush = nullptr;
  decltype(&::av_packet_alloc) alloc_packet = nullptr;
  decltype(&::av_packet_free) free_packet = nullptr;
  decltype(&::av_frame_alloc) alloc_frame = nullptr;
  decltype(&::av_frame_free) free_frame = nullptr;
  decltype(&::av_frame_unref) unref_frame = nullptr;
  decltype(&::av_mallocz) alloc_bytes = nullptr;
  decltype(&::av_strerror) error_text = nullptr;
  decltype(&::av_get_pix_fmt_name) pixel_name = nullptr;
  decltype(&::av_log_set_level) set_log_level = nullptr;
  decltype(&::av_version_info) version = nullptr;
};

// One for the process; a Status that names the missing file where there is none.
Result<const FfmpegLibrary*> ffmpeg_library();

// The package of Debian and Ubuntu with the major version that this build was made for.
std::string ffmpeg_package();

std::string ffmpeg_error(const FfmpegLibrary& library, int code);

}  // namespace overlord::media

#endif
