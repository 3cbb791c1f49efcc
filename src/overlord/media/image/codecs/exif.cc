#include "overlord/media/image/codecs/exif.h"

#include "overlord/media/byte_view.h"

namespace overlord::media {
namespace {

constexpr uint32_t kOrientationTag = 0x0112;
constexpr uint32_t kShortType = 3;
constexpr size_t kEntryBytes = 12;

}  // namespace

int32_t exif_orientation(std::string_view tiff) {
  // Some writers put the JPEG segment's prefix into PNG and WebP chunks as well.
  if (tiff.starts_with(std::string_view("Exif\0\0", 6))) tiff.remove_prefix(6);
  if (tiff.size() < 8) return 1;
  const bool little = tiff.starts_with("II");
  if (!little && !tiff.starts_with("MM")) return 1;
  const auto u16 = [&](size_t at) { return little ? little_u16(tiff, at) : big_u16(tiff, at); };
  const auto u32 = [&](size_t at) { return little ? little_u32(tiff, at) : big_u32(tiff, at); };
  if (u16(2) != 42) return 1;
  const size_t directory = u32(4);
  if (!holds(tiff, directory, 2)) return 1;
  const size_t count = u16(directory);
  for (size_t i = 0; i < count; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (!holds(tiff, entry, kEntryBytes)) return 1;
    if (u16(entry) != kOrientationTag) continue;
    if (u16(entry + 2) != kShortType) return 1;
    const uint32_t value = u16(entry + 8);
    return value >= 1 && value <= 8 ? static_cast<int32_t>(value) : 1;
  }
  return 1;
}

}  // namespace overlord::media
