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
  std::string package;  // of Debian: to build with, or, where in_build, to run with
  std::string version;  // as built; "" where absent
  bool in_build = false;
  bool present = false;  // in the build, and its library on this machine
  Digest fingerprint;    // zero where absent
};

// In a fixed order, absent ones included. Decodes the kept pictures on the first call.
const std::vector<Codec>& codecs();

// Ok when this build has what a field of media needs, by its kind and by the names its blobs come
// under where those are endings of files ("png"); else what to install.
Status require_codecs(model::MediaKind kind, std::span<const std::string> places);

// What FFmpeg's decoders make of the kept clips, the same with every version and on every CPU:
// H.264 and VP9 are exact by definition, and the rest is whole numbers.
inline constexpr Digest kVideoFingerprint{0xa1827d5c30619058, 0x81e155d526edd936};

// One digest over all of them and over the version of our own pixel arithmetic, for the digest of a
// job with media of that kind. A job without clips is the same with and without FFmpeg: there
// kVideoFingerprint stands for it.
Digest codecs_fingerprint(model::MediaKind kind);

}  // namespace overlord::media
