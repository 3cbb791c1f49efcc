// The codecs that this build has, for `doctor` and for digests. A codec's fingerprint is the digest
// of the pixels it makes of small pictures kept in the program: two builds with one fingerprint
// agree on those, whatever their versions are called.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/hash.h"

namespace overlord::media {

struct Codec {
  std::string name;     // "jpeg", "png", "webp", "audio", "video"
  std::string made_by;  // "libjpeg-turbo"
  std::string version;  // as built; "" where absent
  bool present = false;
  Digest fingerprint;  // zero where absent
};

// In a fixed order, absent ones included. Decodes the kept pictures on the first call.
const std::vector<Codec>& codecs();

// One digest over all of them and over the version of our own pixel arithmetic.
Digest codecs_fingerprint();

}  // namespace overlord::media
