#include "overlord/testing/picture_corpus.h"

#include <algorithm>

#include "overlord/base/rng.h"
#include "overlord/testing/tar_file.h"

namespace overlord::testing {
namespace {

constexpr uint64_t kWidthKey = 0x70696374;

void put_big(std::string* out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out->push_back(static_cast<char>(value >> shift));
}

uint32_t crc32(std::string_view bytes) {
  uint32_t crc = 0xffffffffu;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

void put_chunk(std::string* out, const std::string& name, const std::string& body) {
  put_big(out, static_cast<uint32_t>(body.size()));
  *out += name + body;
  put_big(out, crc32(name + body));
}

// A zlib stream of stored blocks.
std::string stored(const std::string& bytes) {
  std::string out("\x78\x01", 2);
  uint32_t low = 1, high = 0;
  for (const char byte : bytes) {
    low = (low + static_cast<uint8_t>(byte)) % 65521;
    high = (high + low) % 65521;
  }
  for (size_t at = 0; at < bytes.size(); at += 65535) {
    const size_t size = std::min<size_t>(65535, bytes.size() - at);
    out.push_back(at + size == bytes.size() ? 1 : 0);
    for (const size_t value : {size, ~size}) {
      out.push_back(static_cast<char>(value & 0xff));
      out.push_back(static_cast<char>(value >> 8 & 0xff));
    }
    out.append(bytes, at, size);
  }
  put_big(&out, high << 16 | low);
  return out;
}

}  // namespace

bool has_picture(uint64_t sample) { return sample % 4 != 3; }

uint32_t pictures_of(const PictureSpec& spec, uint64_t sample) {
  return static_cast<uint32_t>(sample % (spec.several + 1));
}

uint64_t picture_number(uint64_t sample, uint32_t number) { return sample * 100 + number; }

uint32_t picture_width(const PictureSpec& spec, uint64_t sample) {
  return spec.unit * static_cast<uint32_t>(1 + random_u64(kWidthKey, sample, 0) % spec.most_units);
}

uint32_t picture_height(const PictureSpec& spec, uint64_t sample) {
  return spec.unit * static_cast<uint32_t>(1 + random_u64(kWidthKey, sample, 1) % spec.most_units);
}

uint8_t level_at(uint64_t sample, uint32_t x, uint32_t y, uint32_t channel) {
  return static_cast<uint8_t>(sample * 17 + x * 5 + y * 3 + channel * 71);
}

std::string png_of(const PictureSpec& spec, uint64_t sample, uint32_t cut) {
  const uint32_t width = picture_width(spec, sample), height = picture_height(spec, sample);
  std::string rows;
  for (uint32_t y = 0; y < height; ++y) {
    rows.push_back('\0');  // no filter
    for (uint32_t x = 0; x < width; ++x) {
      for (uint32_t c = 0; c < 3; ++c) {
        rows.push_back(static_cast<char>(level_at(sample, x, y, c)));
      }
    }
  }
  rows.resize(rows.size() - std::min<size_t>(cut, rows.size()));
  std::string first;
  put_big(&first, width);
  put_big(&first, height);
  first += std::string("\x08\x02\0\0\0", 5);
  std::string png = "\x89PNG\r\n\x1a\n";
  put_chunk(&png, "IHDR", first);
  put_chunk(&png, "IDAT", stored(rows));
  put_chunk(&png, "IEND", "");
  return png;
}

Files picture_corpus(const PictureSpec& spec, uint64_t broken) {
  Files files;
  for (uint32_t shard = 0; shard < spec.shards; ++shard) {
    std::string tar;
    for (uint32_t i = 0; i < spec.samples; ++i) {
      const uint64_t sample = uint64_t{shard} * spec.samples + i;
      const std::string name = std::to_string(sample);
      std::string text = "picture " + name;
      for (uint32_t k = 0; spec.several > 0 && k < pictures_of(spec, sample); ++k) {
        text.insert(k * 3, 1, kMark);
        put_member(&tar, name + "." + std::to_string(k) + ".png",
                   png_of(spec, picture_number(sample, k), sample == broken && k == 1 ? 40 : 0));
      }
      put_member(&tar, name + ".txt", text);
      if (spec.several == 0 && has_picture(sample)) {
        put_member(&tar, name + ".png", png_of(spec, sample, sample == broken ? 40 : 0));
      }
    }
    end_tar(&tar);
    files[spec.directory + "/" + spec.source + "-0000" + std::to_string(shard) + ".tar"] = tar;
  }
  return files;
}

}  // namespace overlord::testing
