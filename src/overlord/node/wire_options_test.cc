// What a node is told of the wire as words, and which files it takes secrets from.
#include "overlord/node/wire_options.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "overlord/storage/temporary_directory_test.h"

namespace overlord::node {
namespace {

TEST(WireOptions, GoThroughWordsAndBack) {
  WireOptions all{"lead:1", true, true, "here:2", "c.pem", "k.pem", "ca.pem", "env:TOKEN", "a:3"};
  WireOptions got;
  for (const std::string& word : all.words()) {
    const size_t at = word.find('=');
    ASSERT_NE(at, std::string::npos) << word;
    EXPECT_TRUE(got.take(word.substr(0, at), word.substr(at + 1))) << word;
  }
  EXPECT_EQ(got.words(), all.words());
  EXPECT_EQ(got.lead, "lead:1");
  EXPECT_TRUE(got.leads);
  EXPECT_EQ(got.bind, "here:2");
  EXPECT_EQ(got.certificate, "c.pem");
  EXPECT_EQ(got.private_key, "k.pem");
  EXPECT_EQ(got.authority, "ca.pem");
  EXPECT_EQ(got.token, "env:TOKEN");
  EXPECT_EQ(got.at, "a:3");
  EXPECT_TRUE(WireOptions().words().empty()) << "a host that is alone";
  EXPECT_FALSE(WireOptions().several_hosts());
  EXPECT_TRUE(got.several_hosts());
}

TEST(WireOptions, LeavesTheWordsOfOthers) {
  WireOptions options;
  EXPECT_FALSE(options.take("share_batches", "0"));
  EXPECT_FALSE(options.take("wire.other", "0"));
  EXPECT_TRUE(options.take("wire.leads", "0"));
  EXPECT_FALSE(options.leads);
}

TEST(WireOptions, AHostThatMayLeadIsCalledAtAnAddressOfItsOwn) {
  WireOptions options;
  options.lead = "a:1,b:2,c:3";
  EXPECT_EQ(options.first(), "a:1");
  options.at = "b:2";
  EXPECT_EQ(options.own(), "b:2");
  WireOptions alone;
  alone.lead = "a:1";
  EXPECT_EQ(alone.own(), "a:1");
  EXPECT_EQ(alone.first(), "a:1");
}

class WireSecrets : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& bytes, mode_t mode) {
    folder_.write(name, bytes);
    chmod(folder_.path(name).c_str(), mode);
    return folder_.path(name);
  }
  static void refused(const WireOptions& options, Code code, const std::string& says) {
    const Status status = read_security(options).status();
    EXPECT_EQ(status.code(), code) << says;
    EXPECT_NE(status.message().find(says), std::string::npos) << status.message();
  }

  storage::TemporaryDirectory folder_;
};

TEST_F(WireSecrets, AreReadFromWhereTheyLie) {
  WireOptions options;
  options.certificate = file("c", "certificate", 0644);
  options.private_key = file("k", "key", 0600);
  options.authority = file("a", "authority", 0644);
  options.token = "file:" + file("t", "secret\r\n", 0400);
  const auto security = read_security(options);
  ASSERT_TRUE(security.ok()) << security.status().message();
  EXPECT_EQ(security->certificate, "certificate");
  EXPECT_EQ(security->private_key, "key");
  EXPECT_EQ(security->authority, "authority");
  EXPECT_EQ(security->token, "secret") << "without the line's end";
  EXPECT_TRUE(read_security({}).ok());
}

TEST_F(WireSecrets, AKeyOrATokenThatOthersMayReadIsRefused) {
  for (const mode_t mode : {0640, 0604, 0620}) {
    WireOptions options;
    options.private_key = file("k", "key", mode);
    refused(options, Code::kInvalidArgument, "can be read by others; chmod 600");
    options = {};
    options.token = "file:" + file("t", "secret", mode);
    refused(options, Code::kInvalidArgument, "can be read by others; chmod 600");
  }
}

TEST_F(WireSecrets, WhatIsNotThereIsNamed) {
  WireOptions options;
  options.authority = folder_.path("none");
  refused(options, Code::kNotFound, "no file " + options.authority);
  options = {};
  options.token = "env:OVERLORD_TEST_TOKEN";
  unsetenv("OVERLORD_TEST_TOKEN");
  refused(options, Code::kNotFound, "the environment has no OVERLORD_TEST_TOKEN");
  setenv("OVERLORD_TEST_TOKEN", "", 1);
  refused(options, Code::kNotFound, "the environment has no OVERLORD_TEST_TOKEN");
  setenv("OVERLORD_TEST_TOKEN", "secret", 1);
  EXPECT_EQ(read_security(options)->token, "secret");
  unsetenv("OVERLORD_TEST_TOKEN");
  options.token = "secret";
  refused(options, Code::kInvalidArgument, "a reference env:NAME or file:PATH");
}

}  // namespace
}  // namespace overlord::node
