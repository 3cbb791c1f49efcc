#include "overlord/media/image/codecs/jpeg_encode.h"

#ifdef OVERLORD_HAS_JPEG
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
// jpeglib.h wants cstdio before it.
#include <jpeglib.h>
#endif

namespace overlord::media {

#ifdef OVERLORD_HAS_JPEG

namespace {

struct EncodeErrors {
  jpeg_error_mgr base;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void leave_compressing(j_common_ptr info) {
  auto& errors = *reinterpret_cast<EncodeErrors*>(info->err);
  (*errors.base.format_message)(info, errors.message);
  std::longjmp(errors.back, 1);
}

// A file that libjpeg allocates while it grows.
struct GrowingFile {
  unsigned char* data = nullptr;
  unsigned long size_bytes = 0;
};

// Keeps no object with a destructor: libjpeg leaves it by longjmp. False: `errors` says why.
bool compress(const ImageView& image, int32_t quality, jpeg_compress_struct& info,
              EncodeErrors& errors, GrowingFile& file) {
  if (setjmp(errors.back) != 0) return false;
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &file.data, &file.size_bytes);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = image.channels;
  info.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  info.dct_method = JDCT_ISLOW;
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    // libjpeg only reads it.
    auto* row = const_cast<JSAMPROW>(image.row(static_cast<int32_t>(info.next_scanline)));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  return true;
}

}  // namespace

Result<std::string> encode_jpeg(const ImageView& image, int32_t quality) {
  if ((image.channels != 1 && image.channels != 3) || image.width < 1 || image.height < 1 ||
      quality < 1 || quality > 100) {
    return invalid_argument(
        "JPEG: a picture of " + std::to_string(image.width) + " x " + std::to_string(image.height) +
        " with " + std::to_string(image.channels) + " channels at quality " +
        std::to_string(quality) + "; it needs 1 or 3 channels and a quality of 1 to 100");
  }
  jpeg_compress_struct info = {};
  EncodeErrors errors = {};
  info.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = leave_compressing;
  errors.base.output_message = [](j_common_ptr) {};
  GrowingFile file;
  const bool done = compress(image, quality, info, errors, file);
  std::string bytes;
  if (done) bytes.assign(reinterpret_cast<const char*>(file.data), file.size_bytes);
  jpeg_destroy_compress(&info);
  std::free(file.data);
  if (!done) return Status(Code::kInvalidArgument, std::string("JPEG: ") + errors.message);
  return bytes;
}

#else

Result<std::string> encode_jpeg(const ImageView&, int32_t) {
  return Status(Code::kUnavailable, "JPEG: this build has no libjpeg (OVERLORD_WITH_JPEG)");
}

#endif

}  // namespace overlord::media
