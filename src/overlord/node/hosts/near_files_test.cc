#include "overlord/node/hosts/near_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace overlord::node {
namespace near_files_test {

TEST(NearFiles, NetworksAreNoDisks) {
  for (const uint64_t network : {0x6969u, 0xff534d42u, 0x0bd00bd0u, 0x65735546u}) {
    EXPECT_TRUE(is_network_file_system(network)) << std::hex << network;
  }
  for (const uint64_t disk : {0xef53u, 0x58465342u, 0x9123683eu, 0x794c7630u, 0x01021994u}) {
    EXPECT_FALSE(is_network_file_system(disk)) << std::hex << disk;
  }
}

TEST(NearFiles, AHostSaysWhatItLacksAndWhatItHolds) {
  const std::string path = ::testing::TempDir() + "near_files.tar";
  std::ofstream(path) << "rows";
  model::JobSpec spec;
  spec.sources.resize(4);
  spec.sources[0].name = "away";
  spec.sources[0].files_here = false;
  spec.sources[1].name = "bucket";
  spec.sources[1].files = {"s3://bucket/a.tar"};
  spec.sources[2].name = "disk";
  spec.sources[2].files = {path};
  spec.sources[3].name = "gone";
  spec.sources[3].files = {path, path + ".none"};
  protocol::HostGift gives;
  note_files(spec, &gives);
  EXPECT_EQ(gives.lacks, std::vector<std::string>{"away"});
  EXPECT_EQ(gives.holds, std::vector<std::string>{"disk"});
  std::filesystem::remove(path);
}

}  // namespace near_files_test
}  // namespace overlord::node
