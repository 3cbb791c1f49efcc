// A tiny corpus of pictures with captions, in memory: WebDataset tars of PNG files, written from
// the descriptions of both formats alone. Every pixel can be computed again.
#pragma once

#include <cstdint>
#include <string>

#include "overlord/testing/corpus.h"

namespace overlord::testing {

struct PictureSpec {
  std::string source = "pairs";
  std::string directory = "mem:/corpus";
  uint32_t shards = 2;
  uint32_t samples = 20;    // per shard; every fourth one has no picture
  uint32_t unit = 8;        // sides are multiples of it ...
  uint32_t most_units = 3;  // ... from 1 to so many
  // Not 0: every sample has 0 to so many pictures instead, SAMPLE.NUMBER.png, and a byte kMark in
  // its text for each.
  uint32_t several = 0;
};

inline constexpr char kMark = '\x01';

// `sample` counts over all shards.
bool has_picture(uint64_t sample);
// Where samples have several: how many, and what png_of() and its like know each of them by.
uint32_t pictures_of(const PictureSpec& spec, uint64_t sample);
uint64_t picture_number(uint64_t sample, uint32_t number);
uint32_t picture_width(const PictureSpec& spec, uint64_t sample);
uint32_t picture_height(const PictureSpec& spec, uint64_t sample);
uint8_t level_at(uint64_t sample, uint32_t x, uint32_t y, uint32_t channel);
// 8-bit RGB, pixels stored without compression. `cut`: so many bytes of the pixels are missing.
std::string png_of(const PictureSpec& spec, uint64_t sample, uint32_t cut = 0);

// SAMPLE.txt and, where it has one, SAMPLE.png; `broken` has a picture with a whole header and
// pixels that end too early.
Files picture_corpus(const PictureSpec& spec, uint64_t broken = ~uint64_t{0});

}  // namespace overlord::testing
