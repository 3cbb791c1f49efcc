#include "overlord/media/image/codecs/jpeg_baseline_header.h"

#include "overlord/media/byte_view.h"
#include "overlord/media/image/codecs/jpeg_entropy.h"

namespace overlord::media {
namespace {

constexpr int32_t kLargestJpegSide = 65500;  // libjpeg's own

class HeaderWalk {
 public:
  explicit HeaderWalk(std::string_view bytes) : bytes_(bytes) {}

  std::optional<BaselineHeader> walk() {
    if (!bytes_.starts_with("\xFF\xD8")) return std::nullopt;
    size_t at = 2;
    for (;;) {
      if (!holds(bytes_, at, 4) || byte_at(bytes_, at) != 0xFF) return std::nullopt;
      const uint32_t marker = byte_at(bytes_, at + 1);
      const size_t size = big_u16(bytes_, at + 2);
      if (size < 2 || !holds(bytes_, at + 2, size)) return std::nullopt;
      const std::string_view segment = bytes_.substr(at + 4, size - 2);
      at += 2 + size;
      if (!take(marker, segment)) return std::nullopt;
      if (marker != 0xDA) continue;
      header_.scan_at = at;
      return header_;
    }
  }

 private:
  bool take(uint32_t marker, std::string_view segment) {
    switch (marker) {
      case 0xC0:
      case 0xC1:
        return frame(segment);
      case 0xC4:
        return huffman_tables(segment);
      case 0xDA:
        return scan(segment) && is_ycc_or_grey() && has_tables();
      case 0xDB:
        return quantisation_tables(segment);
      case 0xDD:
        if (segment.size() != 2) return false;
        header_.restart_every = static_cast<int32_t>(big_u16(segment, 0));
        return true;
      case 0xE0:
        jfif_ = jfif_ || (segment.size() >= 14 && segment.starts_with(std::string_view("JFIF", 5)));
        return true;
      case 0xEE:
        if (segment.size() < 12 || !segment.starts_with("Adobe")) return true;
        if (adobe_) return false;
        adobe_ = true;
        adobe_transform_ = byte_at(segment, 11);
        return true;
      default:
        // Other application segments and comments.
        return (marker >= 0xE1 && marker <= 0xEF) || marker == 0xFE;
    }
  }

  bool frame(std::string_view segment) {
    if (header_.count != 0 || segment.size() < 6 || byte_at(segment, 0) != 8) return false;
    header_.height = static_cast<int32_t>(big_u16(segment, 1));
    header_.width = static_cast<int32_t>(big_u16(segment, 3));
    const size_t count = byte_at(segment, 5);
    if ((count != 1 && count != 3) || segment.size() != 6 + 3 * count) return false;
    if (header_.width < 1 || header_.height < 1 || header_.width > kLargestJpegSide ||
        header_.height > kLargestJpegSide) {
      return false;
    }
    for (size_t c = 0; c < count; ++c) {
      BaselineComponent& part = header_.components[c];
      part.id = byte_at(segment, 6 + 3 * c);
      const uint32_t sampling = byte_at(segment, 7 + 3 * c);
      part.across = static_cast<int32_t>(sampling >> 4);
      part.down = static_cast<int32_t>(sampling & 15);
      part.quantisation = byte_at(segment, 8 + 3 * c);
      const int32_t most = count == 3 && c == 0 ? 2 : 1;
      if (part.across < 1 || part.across > most || part.down < 1 || part.down > most ||
          part.quantisation > 3) {
        return false;
      }
      for (size_t other = 0; other < c; ++other) {
        if (header_.components[other].id == part.id) return false;
      }
    }
    header_.count = static_cast<int32_t>(count);
    return true;
  }

  bool huffman_tables(std::string_view segment) {
    while (!segment.empty()) {
      if (segment.size() <= 1 + kCodeLengths) return false;
      const uint32_t which = byte_at(segment, 0);
      if ((which & 15) > 3 || which >> 4 > 1) return false;
      size_t symbols = 0;
      for (size_t i = 1; i <= kCodeLengths; ++i) symbols += byte_at(segment, i);
      if (!holds(segment, 1, kCodeLengths + symbols)) return false;
      const std::string_view table = segment.substr(1, kCodeLengths + symbols);
      if (!is_huffman_table(table)) return false;
      (which >> 4 == 0 ? header_.dc : header_.ac)[which & 15] = table;
      segment.remove_prefix(1 + table.size());
    }
    return true;
  }

  bool quantisation_tables(std::string_view segment) {
    for (; !segment.empty(); segment.remove_prefix(65)) {
      // The high half of the first byte is 0 for entries of 8 bits.
      if (segment.size() < 65 || byte_at(segment, 0) > 3) return false;
      header_.quantisation[byte_at(segment, 0)] = segment.substr(1, 64);
    }
    return true;
  }

  bool scan(std::string_view segment) {
    const auto count = static_cast<size_t>(header_.count);
    if (count == 0 || segment.size() != 4 + 2 * count || byte_at(segment, 0) != count) return false;
    for (size_t c = 0; c < count; ++c) {
      BaselineComponent& part = header_.components[c];
      if (byte_at(segment, 1 + 2 * c) != part.id) return false;
      part.dc = byte_at(segment, 2 + 2 * c) >> 4;
      part.ac = byte_at(segment, 2 + 2 * c) & 15;
      if (part.dc > 3 || part.ac > 3) return false;
    }
    // All coefficients, all of their bits.
    return segment.substr(1 + 2 * count) == std::string_view("\0\x3F\0", 3);
  }

  // As libjpeg decides, where the signs are clear.
  bool is_ycc_or_grey() const {
    if (header_.count == 1) return true;
    if (adobe_) return adobe_transform_ == 1;
    if (jfif_) return true;
    return header_.components[0].id == 1 && header_.components[1].id == 2 &&
           header_.components[2].id == 3;
  }

  bool has_tables() const {
    for (int32_t c = 0; c < header_.count; ++c) {
      const BaselineComponent& part = header_.components[static_cast<size_t>(c)];
      if (header_.quantisation[part.quantisation].empty() || header_.dc[part.dc].empty() ||
          header_.ac[part.ac].empty()) {
        return false;
      }
      // A DC symbol is a number of bits; libjpeg refuses tables with more than 15.
      for (const char symbol : header_.dc[part.dc].substr(kCodeLengths)) {
        if (static_cast<uint8_t>(symbol) > 15) return false;
      }
    }
    return true;
  }

  std::string_view bytes_;
  BaselineHeader header_;
  bool jfif_ = false;
  bool adobe_ = false;
  uint32_t adobe_transform_ = 0;
};

}  // namespace

std::optional<BaselineHeader> read_baseline_header(std::string_view bytes) {
  return HeaderWalk(bytes).walk();
}

}  // namespace overlord::media
