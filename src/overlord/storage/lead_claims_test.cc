// Who leads, where several hosts share a folder: one claim is made by one of them, and a folder
// that would not do is refused by name.
#include "overlord/storage/lead_claims.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <thread>
#include <vector>

#include "overlord/storage/temporary_directory_test.h"

namespace overlord::storage {
namespace lead_claims_test {

class LeadClaimsTest : public ::testing::Test {
 protected:
  std::string folder() const { return directory_.path("journal/run"); }
  LeadClaims open(const std::string& drawn = "a") {
    Result<LeadClaims> claims = LeadClaims::open(folder(), drawn, operations_);
    EXPECT_TRUE(claims.ok()) << claims.status().message();
    return std::move(*claims);
  }
  void SetUp() override { std::filesystem::create_directory(directory_.path("journal")); }

  // A folder that several hosts believe to share.
  class Folder : public FileOperations {
   public:
    int create(const std::string& path, int* fd) override {
      if (twice) FileOperations::remove(path);
      return FileOperations::create(path, fd);
    }
    int sync(int fd) override { return fails ? EIO : FileOperations::sync(fd); }
    int sync_folder(const std::string& at) override {
      return fails_of_folders ? EINVAL : FileOperations::sync_folder(at);
    }
    bool twice = false, fails = false, fails_of_folders = false;
  };

  TemporaryDirectory directory_;
  Folder operations_;
};

TEST_F(LeadClaimsTest, TheNewestCountsAndOlderOnesGo) {
  const LeadClaims here = open(), there = open("b");
  EXPECT_FALSE(here.newest()->held()) << "nobody has led";
  for (uint32_t number = 1; number <= 20; ++number) {
    const LeadClaims& next = number % 2 == 0 ? here : there;
    EXPECT_EQ(*next.claim(number, "host-" + std::to_string(number)), true);
    EXPECT_EQ(*here.claim(number, "late"), false);
    EXPECT_EQ(there.newest()->number, number);
    EXPECT_EQ(there.newest()->holder, "host-" + std::to_string(number));
  }
  EXPECT_EQ(*here.claim(21, LeadClaim::kEnded), true);
  EXPECT_FALSE(there.newest()->held()) << "it has ended in good order";
  const std::filesystem::directory_iterator all(folder());
  EXPECT_LE(std::distance(begin(all), end(all)), 5);
}

TEST_F(LeadClaimsTest, OfThoseThatClaimAtOnceOneHasIt) {
  for (uint32_t number = 1; number <= 50; ++number) {
    std::atomic<int> made{0};
    std::vector<std::thread> hosts;
    for (int host = 0; host < 4; ++host) {
      hosts.emplace_back([&, host] {
        const LeadClaims claims = open("host-" + std::to_string(host));
        made += *claims.claim(number, "x") ? 1 : 0;
      });
    }
    for (std::thread& host : hosts) host.join();
    ASSERT_EQ(made, 1) << number;
  }
}

TEST_F(LeadClaimsTest, AMarkIsSeenByTheOtherAndGoes) {
  const LeadClaims here = open(), there = open("b");
  const Result<std::string> mark = here.leave_mark("of-a");
  ASSERT_TRUE(mark.ok());
  EXPECT_TRUE(there.see_mark(*mark).ok());
  EXPECT_FALSE(there.see_mark(*mark).ok()) << "it was removed";
  EXPECT_FALSE(there.see_mark("lead-00000001").ok());
  EXPECT_FALSE(there.see_mark("mark-/../../x").ok());
}

TEST_F(LeadClaimsTest, AFolderThatIsNotTheSameIsRefusedByName) {
  const LeadClaims here = open();
  std::filesystem::create_directory(directory_.path("other"));
  const Result<LeadClaims> there = LeadClaims::open(directory_.path("other/run"), "b");
  ASSERT_TRUE(there.ok());
  const Status why = here.see_mark(*there->leave_mark("of-b"));
  EXPECT_NE(why.message().find("does not show what another host has made"), std::string::npos);
  EXPECT_NE(why.message().find("runtime.journal"), std::string::npos);
}

TEST_F(LeadClaimsTest, AFolderThatDoesNotKeepItsPromisesIsRefusedByName) {
  const auto refusal = [&] {
    return LeadClaims::open(folder(), "a", operations_).status().message();
  };
  operations_.twice = true;
  EXPECT_NE(refusal().find("makes a file that is there already"), std::string::npos);
  operations_.twice = false;
  operations_.fails = true;
  EXPECT_NE(refusal().find("cannot make or sync a file"), std::string::npos);
  operations_.fails = false;
  open();
  operations_.fails_of_folders = true;
  EXPECT_NE(refusal().find("cannot make or sync a file"), std::string::npos);
}

TEST_F(LeadClaimsTest, AnotherHostThatMakesTheSameFileIsNoticed) {
  const LeadClaims here = open();
  const Result<std::string> mark = here.leave_mark("of-a");
  operations_.twice = true;
  EXPECT_NE(here.see_mark(*mark).message().find("makes a file that another host has made"),
            std::string::npos);
}

TEST_F(LeadClaimsTest, AFolderThatIsNotMountedIsNotMade) {
  std::filesystem::remove(directory_.path("journal"));
  const Status why = LeadClaims::open(folder(), "a").status();
  EXPECT_NE(why.message().find("is not there on this host"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(directory_.path("journal")));
}

}  // namespace lead_claims_test
}  // namespace overlord::storage
