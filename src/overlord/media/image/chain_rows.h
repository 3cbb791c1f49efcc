// How the outcome of a chain lies in an array of rows that many pictures share: a row is a patch,
// or a picture where all leave the chain in one size.
#pragma once

#include <cstdint>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/media/image/image_chain.h"

namespace overlord::media {

struct ChainRows {
  std::vector<uint32_t> shape;  // of one row: {values}, {height, width, channels}, or planes first
  bool floats = false;
  bool patches = false;
};

// Refuses a chain whose pictures have no row size in common.
Result<ChainRows> chain_rows(const ImageChain& chain);

}  // namespace overlord::media
