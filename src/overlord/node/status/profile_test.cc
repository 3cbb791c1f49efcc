// What sources cost: put together from what processes tell, and kept beside an index.
#include "overlord/node/status/profile.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "overlord/node/status/status_codec.h"

namespace overlord::node {
namespace {

LoaderStatus loader(const std::string& source, uint32_t slot, uint64_t documents) {
  LoaderStatus out;
  out.source = source;
  out.slot = slot;
  out.counts.documents = documents;
  out.counts.blocks_read = 1;
  out.counts.read_wait_ns = 1;
  out.counts.decode_ns = 2;
  out.python_ns = 4;
  out.counts.tokenise_ns = 8;
  out.counts.media_ns = 16;
  out.counts.read_bytes = 100;
  out.counts.decode_in_bytes = 100;
  out.counts.decode_out_bytes = 300;
  out.counts.tokenise_in_bytes = 300;
  out.counts.tokenise_out_bytes = 60;
  out.counts.media_in_bytes = 7;
  out.counts.media_out_bytes = 70;
  out.counts.media_blobs = 1;
  out.counts.sent_bytes = 130;
  out.reading_peak_bytes = 11;
  out.buffer_peak_bytes = 12;
  out.in_flight_peak_bytes = 13;
  out.worker_peak_bytes = 1000;
  return out;
}

EngineStatus status_of(std::vector<LoaderStatus> loaders) {
  EngineStatus out;
  out.loaders = std::move(loaders);
  return out;
}

TEST(ProfileBook, ProcessesThatLiveTogetherAddUp) {
  ProfileBook book;
  book.told("loaders-0", status_of({loader("s", 0, 10), loader("s", 1, 20), loader("t", 0, 1)}));
  book.told("loaders-1", status_of({loader("s", 2, 30)}));
  EngineStatus constructors;
  constructors.unpacking.push_back({"s", {5, 500, 50, 5000}, 0, 900});
  book.told("constructors-0", constructors);
  book.told("constructors-1", constructors);
  book.told("constructors-1", constructors);  // the newest counts, not every one
  const SourceProfiles profiles = book.profiles();
  ASSERT_EQ(profiles.size(), 2u);
  const SourceProfile& s = profiles.at("s");
  EXPECT_EQ(s.loaders, 3u);
  EXPECT_EQ(s.documents, 60u);
  EXPECT_EQ(s.stages.read.ns, 3u);
  EXPECT_EQ(s.stages.decode.ns, 6u);
  EXPECT_EQ(s.stages.python.ns, 12u);
  EXPECT_EQ(s.stages.tokenise.ns, 24u);
  EXPECT_EQ(s.stages.media.ns, 48u);
  EXPECT_EQ(s.stages.unpack.ns, 1000u);
  EXPECT_EQ(s.unpacked_blobs, 10u);
  EXPECT_EQ(s.stages.decode.out_bytes, 900u);
  EXPECT_EQ(s.stages.send.out_bytes, 390u);
  EXPECT_EQ(s.stages.send.peak_bytes, 39u);
  EXPECT_EQ(s.stages.unpack.peak_bytes, 1800u);
  // Slots of one process share its tokenizer; those of another have their own.
  EXPECT_EQ(s.stages.tokenise.peak_bytes, 2000u);
  EXPECT_EQ(profiles.at("t").documents, 1u);
}

TEST(ProfileBook, WorkOfADeadProcessStaysCountedAndItsMemoryDoesNot) {
  ProfileBook book;
  book.told("loaders-0", status_of({loader("s", 0, 10)}));
  book.ended("loaders-0");
  book.ended("loaders-0");  // it was told of nothing meanwhile
  EXPECT_EQ(book.profiles().at("s").documents, 10u);
  book.told("loaders-0", status_of({loader("s", 0, 5)}));
  const SourceProfile after = book.profiles().at("s");
  EXPECT_EQ(after.documents, 15u);
  EXPECT_EQ(after.stages.decode.ns, 4u);
  EXPECT_EQ(after.loaders, 1u);
  EXPECT_EQ(after.stages.decode.peak_bytes, 12u);
  EXPECT_EQ(after.stages.tokenise.peak_bytes, 1000u);
}

TEST(ProfileBook, WhatProcessesTellTravelsWhole) {
  EngineStatus told = status_of({loader("s", 3, 9)});
  told.unpacking.push_back({"s", {1, 2, 3, 4}, 5, 6});
  const auto heard = decode_engine_status(encode_engine_status(told));
  ASSERT_TRUE(heard.ok());
  ProfileBook here, there;
  here.told("a", told);
  there.told("a", *heard);
  const SourceProfile sent = here.profiles().at("s"), got = there.profiles().at("s");
  EXPECT_EQ(got.documents, sent.documents);
  EXPECT_EQ(got.stages.python.ns, sent.stages.python.ns);
  EXPECT_EQ(got.stages.media.in_bytes, sent.stages.media.in_bytes);
  EXPECT_EQ(got.stages.send.peak_bytes, sent.stages.send.peak_bytes);
  EXPECT_EQ(got.stages.tokenise.peak_bytes, sent.stages.tokenise.peak_bytes);
  EXPECT_EQ(got.stages.unpack.out_bytes, 4u);
  EXPECT_EQ(got.stages.unpack.peak_bytes, 6u);
}

class ProfileFile : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/overlord-profile-XXXXXX";
    folder_ = mkdtemp(name);
    path_ = profile_path(folder_ + "/s.index", "s");
  }
  void TearDown() override {
    chmod(folder_.c_str(), 0700);
    std::filesystem::remove_all(folder_);
  }
  static SourceProfile profile(uint64_t documents) {
    SourceProfiles profiles;
    add_costs(status_of({loader("s", 0, documents)}), &profiles);
    return profiles.at("s");
  }
  std::string text() const {
    std::stringstream out;
    out << std::ifstream(path_).rdbuf();
    return out.str();
  }
  bool tells_of(uint64_t documents) const {
    return text().find("\"documents\": " + std::to_string(documents) + ",") != std::string::npos;
  }

  std::string folder_, path_;
  const ProfiledRun run_{"embedded", "abcd", 5};
};

TEST_F(ProfileFile, EverySubSourceHasItsOwn) {
  EXPECT_EQ(profile_path("a/b.index", "b"), "a/b.index.profile");
  EXPECT_EQ(profile_path("a/b.index", "b/2"), "a/b.index.2.profile");
}

TEST_F(ProfileFile, ARunThatToldMuchLessLeavesALongOne) {
  write_profile(path_, "s", profile(1000), run_);
  EXPECT_TRUE(tells_of(1000)) << text();
  write_profile(path_, "s", profile(99), run_);
  EXPECT_TRUE(tells_of(1000)) << "a look at a step is no measurement";
  write_profile(path_, "s", profile(100), run_);
  EXPECT_TRUE(tells_of(100)) << text();
  write_profile(path_, "s", profile(1), {"embedded", "other", 5});
  EXPECT_TRUE(tells_of(1)) << "what another config cost is of no use";
  SourceProfile nothing;
  write_profile(path_, "s", nothing, {"embedded", "third", 5});
  EXPECT_TRUE(tells_of(1)) << "a run that read nothing has measured nothing";
}

TEST_F(ProfileFile, NothingElseIsLeftAndABrokenOneIsReplaced) {
  std::ofstream(path_) << "{\"format\": 3, \"config\": \"abcd\", \"documents\": nonsense";
  write_profile(path_, "s", profile(7), run_);
  EXPECT_TRUE(tells_of(7)) << text();
  size_t files = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(folder_)) ++files;
  EXPECT_EQ(files, 1u);
}

TEST_F(ProfileFile, AFolderThatCannotBeWrittenIsNoFailure) {
  write_profile(folder_ + "/none/s.index.profile", "s", profile(7), run_);
  std::filesystem::create_directory(path_);  // in the way of the new file
  write_profile(path_, "s", profile(7), run_);
  size_t files = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(folder_)) ++files;
  EXPECT_EQ(files, 1u) << "the unfinished file is gone";
}

}  // namespace
}  // namespace overlord::node
