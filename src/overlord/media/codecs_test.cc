// What a build has and lacks, whatever it was configured with.
#include "overlord/media/codecs.h"

#include <gtest/gtest.h>

namespace overlord::media {
namespace {

using model::MediaKind;

const Codec& codec(std::string_view name) {
  for (const Codec& one : codecs()) {
    if (one.name == name) return one;
  }
  ADD_FAILURE() << "no codec " << name;
  return codecs().front();
}

void expect_verdict(const Codec& needed, MediaKind kind, const std::vector<std::string>& places) {
  const Status status = require_codecs(kind, places);
  EXPECT_EQ(status.ok(), needed.present) << needed.name << ": " << status.message();
  if (needed.present) return;
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find(needed.package), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("overlord doctor"), std::string::npos) << status.message();
}

TEST(Codecs, AFieldIsRefusedByWhatItsBuildLacks) {
  expect_verdict(codec("audio"), MediaKind::kAudio, {"mp3"});
  expect_verdict(codec("video"), MediaKind::kVideo, {"mp4"});
  expect_verdict(codec("jpeg"), MediaKind::kImage, {"jpg"});
  expect_verdict(codec("png"), MediaKind::kImage, {"PNG"});
  expect_verdict(codec("webp"), MediaKind::kImage, {"webp"});
}

TEST(Codecs, PicturesUnderAnotherNameNeedAnyCodec) {
  const bool any = codec("jpeg").present || codec("png").present || codec("webp").present;
  EXPECT_EQ(require_codecs(MediaKind::kImage, std::vector<std::string>{"image.bytes"}).ok(), any);
}

TEST(Codecs, AbsentOnesAreListedWithTheirPackage) {
  ASSERT_EQ(codecs().size(), 5U);
  for (const Codec& one : codecs()) {
    EXPECT_FALSE(one.package.empty());
    EXPECT_EQ(one.present, !one.version.empty());
    EXPECT_EQ(one.present, one.fingerprint != Digest{}) << one.name;
    EXPECT_TRUE(one.in_build || !one.present) << one.name;
  }
}

TEST(Codecs, FfmpegChangesTheFingerprintOfJobsWithClipsAlone) {
  EXPECT_EQ(codecs_fingerprint(MediaKind::kImage), codecs_fingerprint(MediaKind::kAudio));
  const bool there = codec("video").present;
  EXPECT_EQ(codecs_fingerprint(MediaKind::kImage) == codecs_fingerprint(MediaKind::kVideo), there);
}

}  // namespace
}  // namespace overlord::media
