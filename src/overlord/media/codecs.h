// The codecs that this build has, for `doctor` and for digests. A codec's fingerprint is the digest
// of the pixels it makes of small pictures kept in the program: two builds with one fingerprint
// agree on those, whatever their versions are called.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/hash.h"
#include "overlord/base/status.h"
#include "overlord/model/source.h"

namespace overlord::media {

struct Codec {
  std::string name;     // "jpeg", "png", "webp", "audio", "video"
  std::string made_by;  // "libjpeg-turbo"
  std::string package;  // of Debian, to build with
  std::string version;  // as built; "" where absent
  bool present = false;
  Digest fingerprint;  // zero where absent
};

// In a fixed order, absent ones included. Decodes the kept pictures on the first call.
const std::vector<Codec>& codecs();

// Ok when this build has what a field of media needs, by its kind and by the names its blobs come
// under where those are endings of files ("png"); else what to install.
Status require_codecs(model::MediaKind kind, std::span<const std::string> places);

// One digest over all of them and over the version of our own pixel arithmetic.
Digest codecs_fingerprint();

}  // namespace overlord::media
