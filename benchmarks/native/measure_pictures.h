// How fast this machine turns JPEGs into small pictures with nothing around it: no files, no
// queues, no Python. What the bench `images` holds a whole loader against.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "overlord/base/status.h"

namespace overlord::bench {

enum class PictureLoop : uint8_t {
  kPlain,  // libjpeg-turbo to RGB, scaled by its transform, then a resize: what one writes by hand
  kChain,  // the chain that sources use
};

struct PictureFigures {
  uint64_t pictures = 0;
  double seconds = 0;
  uint64_t checksum = 0;  // of one pixel of every picture
};

// `threads` go round `files` for about `seconds`; every picture becomes side x side RGB.
Result<PictureFigures> measure_pictures(const std::vector<std::string>& files, int32_t side,
                                        PictureLoop loop, uint32_t threads, double seconds);

}  // namespace overlord::bench
