// JPEG through libjpeg-turbo: whole pictures as RGB, or the planes as they lie in the file, which
// our own decoder (jpeg_baseline.h) gives where it can. The slow integer transform and smooth
// upsampling, whose results are the same on every CPU.
#include <string>

#include "overlord/media/image/codecs/colour.h"
#include "overlord/media/image/codecs/jpeg_baseline.h"
#include "overlord/media/image/image_decode.h"

#ifdef OVERLORD_HAS_JPEG
#include <csetjmp>
#include <cstdio>
// jpeglib.h wants cstdio before it.
#include <jpeglib.h>
// and jerror.h wants jpeglib.h.
#include <jerror.h>
#endif

namespace overlord::media {

#ifdef OVERLORD_HAS_JPEG

namespace {

#if JPEG_LIB_VERSION >= 70
int32_t scaled_block(const jpeg_component_info& part) { return part.DCT_h_scaled_size; }
int32_t smallest_block(const jpeg_decompress_struct& info) { return info.min_DCT_h_scaled_size; }
#else
int32_t scaled_block(const jpeg_component_info& part) { return part.DCT_scaled_size; }
int32_t smallest_block(const jpeg_decompress_struct& info) { return info.min_DCT_scaled_size; }
#endif

struct JpegErrors {
  jpeg_error_mgr base;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
  bool cut = false;      // the file ended where data was due
  bool corrupt = false;  // codes that do not exist, or data that ran out inside a scan
};

struct ScanLimit {
  jpeg_progress_mgr base;
  int32_t scans = 0;
};

JpegErrors& errors_of(j_common_ptr info) { return *reinterpret_cast<JpegErrors*>(info->err); }

[[noreturn]] void leave(j_common_ptr info) {
  JpegErrors& errors = errors_of(info);
  (*errors.base.format_message)(info, errors.message);
  std::longjmp(errors.back, 1);
}

// libjpeg fills what is missing with grey and goes on; we keep the first such warning and refuse.
void note(j_common_ptr info, int level) {
  if (level >= 0) return;
  JpegErrors& errors = errors_of(info);
  switch (errors.base.msg_code) {
    case JWRN_JPEG_EOF:
      errors.cut = true;
      break;
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
      if (!errors.corrupt) (*errors.base.format_message)(info, errors.message);
      errors.corrupt = true;
      break;
    default:
      break;
  }
}

void say_nothing(j_common_ptr) {}

void count_scans(j_common_ptr info) {
  const auto* limit = reinterpret_cast<const ScanLimit*>(info->progress);
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > limit->scans) {
    JpegErrors& errors = errors_of(info);
    std::snprintf(errors.message, sizeof errors.message, "more than %d scans", limit->scans);
    std::longjmp(errors.back, 1);
  }
}

}  // namespace

// A decompressor, made anew for every file. Functions with a setjmp keep no object with a
// destructor, because libjpeg leaves them by longjmp.
class JpegSession {
 public:
  JpegSession() {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = leave;
    errors_.base.emit_message = note;
    errors_.base.output_message = say_nothing;
    limit_.base.progress_monitor = count_scans;
  }
  ~JpegSession() {
    if (alive_) jpeg_destroy_decompress(&info_);
  }
  JpegSession(const JpegSession&) = delete;
  JpegSession& operator=(const JpegSession&) = delete;

  // Reads the headers and sets the output; leaves info() ready for start().
  bool open(std::string_view bytes, const ImageLimits& limits, int32_t divisor) {
    errors_.cut = errors_.corrupt = false;
    errors_.message[0] = '\0';
    limit_.scans = limits.scans;
    // A decompressor keeps its tables for files that have none; what a file becomes must not depend
    // on the file before it.
    if (alive_) jpeg_destroy_decompress(&info_);
    alive_ = false;
    if (setjmp(errors_.back) != 0) return false;
    jpeg_create_decompress(&info_);
    alive_ = true;
    info_.progress = &limit_.base;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes.data()),
                 static_cast<unsigned long>(bytes.size()));
    jpeg_read_header(&info_, TRUE);
    info_.scale_num = 1;
    info_.scale_denom = static_cast<unsigned>(divisor);
    info_.dct_method = JDCT_ISLOW;
    info_.do_fancy_upsampling = TRUE;
    info_.do_block_smoothing = TRUE;
    info_.raw_data_out = FALSE;
    info_.out_color_space = info_.num_components == 4 ? JCS_CMYK : JCS_RGB;
    return true;
  }

  bool start(bool planes) {
    if (setjmp(errors_.back) != 0) return false;
    info_.raw_data_out = planes ? TRUE : FALSE;
    if (planes) info_.out_color_space = info_.jpeg_color_space;
    return jpeg_start_decompress(&info_) != FALSE;
  }

  // All rows, `stride` bytes apart, one row per call: rows may be converted on the way.
  bool read_rows(uint8_t* to, ptrdiff_t stride) {
    if (setjmp(errors_.back) != 0) return false;
    constexpr JDIMENSION kRows = 16;
    JSAMPROW rows[kRows];
    while (info_.output_scanline < info_.output_height) {
      for (JDIMENSION i = 0; i < kRows; ++i) {
        rows[i] = to + static_cast<ptrdiff_t>(info_.output_scanline + i) * stride;
      }
      if (jpeg_read_scanlines(&info_, rows, kRows) == 0) return false;
    }
    return true;
  }

  bool read_planes(uint8_t* const* starts, const ptrdiff_t* strides) {
    if (setjmp(errors_.back) != 0) return false;
    constexpr int32_t kMostRows = MAX_SAMP_FACTOR * DCTSIZE;
    JSAMPROW rows[3][kMostRows];
    JSAMPARRAY arrays[3] = {rows[0], rows[1], rows[2]};
    const auto group = static_cast<JDIMENSION>(info_.max_v_samp_factor * smallest_block(info_));
    for (int32_t done = 0; info_.output_scanline < info_.output_height; ++done) {
      for (int32_t c = 0; c < info_.num_components; ++c) {
        const int32_t height = info_.comp_info[c].v_samp_factor * scaled_block(info_.comp_info[c]);
        for (int32_t i = 0; i < height; ++i) {
          rows[c][i] = starts[c] + static_cast<ptrdiff_t>(done * height + i) * strides[c];
        }
      }
      if (jpeg_read_raw_data(&info_, arrays, group) == 0) return false;
    }
    return true;
  }

  // Ok when all that was read made sense. A missing end after the last block of a file of one scan
  // is no loss; in a file of several scans it may have taken some of them.
  Status finish(bool read) {
    const bool several = info_.progressive_mode || (alive_ && info_.input_scan_number > 1);
    if (alive_) jpeg_abort_decompress(&info_);
    if (!read) return bad_data("JPEG cannot be decoded: " + std::string(errors_.message));
    if (errors_.corrupt || (errors_.cut && several)) {
      return bad_data(errors_.cut ? "JPEG is cut: its data ends before the last pixel"
                                  : "JPEG is damaged: " + std::string(errors_.message));
    }
    return {};
  }

  jpeg_decompress_struct& info() { return info_; }

 private:
  jpeg_decompress_struct info_ = {};
  JpegErrors errors_ = {};
  ScanLimit limit_ = {};
  bool alive_ = false;
};

namespace {

Status check_size(const jpeg_decompress_struct& info, const ImageHeader& header) {
  if (static_cast<int64_t>(info.image_width) == header.width &&
      static_cast<int64_t>(info.image_height) == header.height &&
      info.num_components == header.channels) {
    return {};
  }
  return bad_data("JPEG holds " + std::to_string(info.image_width) + "x" +
                  std::to_string(info.image_height) + " pixels where its header was read as " +
                  std::to_string(header.width) + "x" + std::to_string(header.height));
}

// Ready to be started, or why not.
Status open_jpeg(JpegSession& session, std::string_view bytes, const ImageHeader& header,
                 const ImageLimits& limits, int32_t divisor) {
  if (!session.open(bytes, limits, divisor)) return session.finish(false);
  const Status status = check_size(session.info(), header);
  if (!status.ok()) (void)session.finish(true);
  return status;
}

// Lays the planes of the opened session out in the scratch memory.
void lay_out(const jpeg_decompress_struct& info, const ImageHeader& header, DecodeScratch& scratch,
             JpegPlanes* out, uint8_t** starts, ptrdiff_t* strides) {
  std::array<PlaneShape, 3> shapes;
  const auto count = static_cast<size_t>(info.num_components);
  for (size_t c = 0; c < count; ++c) {
    const jpeg_component_info& part = info.comp_info[c];
    shapes[c] = {part.h_samp_factor, part.v_samp_factor, scaled_block(part)};
  }
  lay_out_planes(header, std::span(shapes).first(count), scratch, out, starts);
  for (size_t c = 0; c < count; ++c) strides[c] = out->planes[c].stride;
}

}  // namespace

Status decode_jpeg(std::string_view bytes, const ImageHeader& header, const DecodeOptions& options,
                   int32_t divisor, DecodeScratch& scratch, Image* out) {
  JpegSession& session = scratch.jpeg();
  OVERLORD_RETURN_IF_ERROR(open_jpeg(session, bytes, header, options.limits, divisor));
  if (!session.start(false)) return session.finish(false);
  const ImageSize size = divided(header, divisor);
  OVERLORD_CHECK(static_cast<int64_t>(session.info().output_width) == size.width &&
                     static_cast<int64_t>(session.info().output_height) == size.height,
                 "libjpeg and divided() differ");
  out->shape(size.width, size.height, 3);
  if (header.channels != 4) return session.finish(session.read_rows(out->row(0), out->stride()));
  Image& wide = scratch.wide;
  wide.shape(size.width, size.height, 4);
  OVERLORD_RETURN_IF_ERROR(session.finish(session.read_rows(wide.row(0), wide.stride())));
  for (int32_t y = 0; y < size.height; ++y) {
    inverted_cmyk_row_to_rgb(wide.row(y), size.width, out->row(y));
  }
  return {};
}

Status decode_jpeg_planes(std::string_view bytes, const ImageHeader& header,
                          const ImageLimits& limits, int32_t divisor, DecodeScratch& scratch,
                          JpegPlanes* out) {
  out->count = 0;
  OVERLORD_RETURN_IF_ERROR(check_limits(header, bytes.size(), limits));
  if (!scratch.only_libjpeg && decode_baseline_planes(bytes, header, divisor, scratch, out)) {
    return {};
  }
  out->count = 0;
  JpegSession& session = scratch.jpeg();
  OVERLORD_RETURN_IF_ERROR(open_jpeg(session, bytes, header, limits, divisor));
  const J_COLOR_SPACE space = session.info().jpeg_color_space;
  if (space != JCS_YCbCr && space != JCS_GRAYSCALE) return session.finish(true);
  if (!session.start(true)) return session.finish(false);
  uint8_t* starts[3] = {};
  ptrdiff_t strides[3] = {};
  lay_out(session.info(), header, scratch, out, starts, strides);
  return session.finish(session.read_planes(starts, strides));
}

#else

class JpegSession {};

Status decode_jpeg(std::string_view, const ImageHeader&, const DecodeOptions&, int32_t,
                   DecodeScratch&, Image*) {
  return codec_absent("JPEG", "libjpeg-dev");
}

Status decode_jpeg_planes(std::string_view, const ImageHeader&, const ImageLimits&, int32_t,
                          DecodeScratch&, JpegPlanes*) {
  return codec_absent("JPEG", "libjpeg-dev");
}

#endif

DecodeScratch::DecodeScratch() = default;
DecodeScratch::~DecodeScratch() = default;
DecodeScratch::DecodeScratch(DecodeScratch&&) noexcept = default;
DecodeScratch& DecodeScratch::operator=(DecodeScratch&&) noexcept = default;

JpegSession& DecodeScratch::jpeg() {
  if (jpeg_ == nullptr) jpeg_ = std::make_unique<JpegSession>();
  return *jpeg_;
}

BaselineDecoder& DecodeScratch::baseline() {
  if (baseline_ == nullptr) baseline_ = std::make_unique<BaselineDecoder>();
  return *baseline_;
}

}  // namespace overlord::media
