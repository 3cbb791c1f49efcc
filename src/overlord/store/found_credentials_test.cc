#include "overlord/store/found_credentials.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>

#include "overlord/store/scripted_server_test.h"

namespace overlord::store {
namespace {

constexpr const char* kVariables[] = {"AWS_ACCESS_KEY_ID",
                                      "AWS_SECRET_ACCESS_KEY",
                                      "AWS_SESSION_TOKEN",
                                      "AWS_PROFILE",
                                      "AWS_SHARED_CREDENTIALS_FILE",
                                      "AWS_CONFIG_FILE",
                                      "AWS_WEB_IDENTITY_TOKEN_FILE",
                                      "AWS_ROLE_ARN",
                                      "AWS_ENDPOINT_URL_STS",
                                      "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                      "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                      "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                                      "AWS_EC2_METADATA_DISABLED",
                                      "AWS_EC2_METADATA_SERVICE_ENDPOINT"};

std::string in_seconds(int64_t seconds) {
  const std::time_t at = std::time(nullptr) + seconds;
  std::tm parts{};
  ::gmtime_r(&at, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// The environment is this test's alone while it runs.
class FoundCredentialsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* const name : kVariables) {
      const char* const value = ::getenv(name);
      if (value != nullptr) before_[name] = value;
      ::unsetenv(name);
    }
    std::string pattern = (std::filesystem::temp_directory_path() / "aws-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    set("AWS_SHARED_CREDENTIALS_FILE", folder_ + "/credentials");
    set("AWS_CONFIG_FILE", folder_ + "/config");
    set("AWS_EC2_METADATA_DISABLED", "true");
    client_ = std::move(*HttpClient::make(4));
    found_.use(client_.get());
  }
  void TearDown() override {
    client_.reset();
    for (const char* const name : kVariables) ::unsetenv(name);
    for (const auto& [name, value] : before_) ::setenv(name.c_str(), value.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }

  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name, std::ios::trunc) << text;
  }
  Result<Credentials> get(const std::optional<Credentials>& refused = {}) {
    std::promise<Result<Credentials>> answer;
    found_.get(refused, [&](Result<Credentials> got) { answer.set_value(std::move(got)); });
    return answer.get_future().get();
  }
  void serve(std::function<std::string(size_t, const Asked&)> answer) {
    server_ = std::make_unique<ScriptedServer>([this, answer](const Asked& asked) {
      Answer out;
      out.body = answer(count_++, asked);
      if (out.body.empty()) out.status = 500;
      return out;
    });
  }

  std::map<std::string, std::string> before_;
  std::string folder_;
  std::atomic<size_t> count_{0};
  std::unique_ptr<ScriptedServer> server_;
  std::unique_ptr<HttpClient> client_;
  FoundCredentials found_;
};

TEST_F(FoundCredentialsTest, TheEnvironmentComesFirst) {
  set("AWS_ACCESS_KEY_ID", "A");
  set("AWS_SECRET_ACCESS_KEY", "B");
  set("AWS_SESSION_TOKEN", "C");
  write("credentials", "[default]\naws_access_key_id = D\naws_secret_access_key = E\n");
  EXPECT_EQ(*get(), (Credentials{"A", "B", "C"}));
}

TEST_F(FoundCredentialsTest, HalfOfAKeyIsNamed) {
  set("AWS_ACCESS_KEY_ID", "A-key");
  const Status status = get().status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("AWS_SECRET_ACCESS_KEY"), std::string::npos);
  EXPECT_EQ(status.message().find("A-key"), std::string::npos);
}

TEST_F(FoundCredentialsTest, AProfileOfEitherFile) {
  write("credentials", "# mine\n[default]\naws_access_key_id=A\naws_secret_access_key=B\n");
  write("config", "[profile lab]\n aws_access_key_id = C\r\naws_secret_access_key = D=\n");
  EXPECT_EQ(*get(), (Credentials{"A", "B", ""}));
  set("AWS_PROFILE", "lab");
  EXPECT_EQ(*FoundCredentialsTest::get(Credentials{"A", "B", ""}), (Credentials{"C", "D=", ""}));
  set("AWS_PROFILE", "none");
  const Status status = get(Credentials{"C", "D=", ""}).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("none"), std::string::npos);
}

TEST_F(FoundCredentialsTest, AFileIsReadAgainWhenItsTokenIsRefused) {
  const auto with = [](const std::string& token) {
    return "[default]\naws_access_key_id = A\naws_secret_access_key = B\naws_session_token = " +
           token + "\n";
  };
  write("credentials", with("first"));
  const Credentials first = *get();
  EXPECT_EQ(first.session_token, "first");
  write("credentials", with("second"));
  EXPECT_EQ(get()->session_token, "first") << "nobody refused it";
  EXPECT_EQ(get(first)->session_token, "second");
  EXPECT_EQ(get(first)->session_token, "second");
}

TEST_F(FoundCredentialsTest, NobodyAsksWithoutAName) { EXPECT_EQ(*get(), Credentials{}); }

TEST_F(FoundCredentialsTest, AContainersTokensAreRenewedBeforeTheyExpire) {
  serve([](size_t i, const Asked& asked) {
    if (asked.header("authorization") != "the-ticket") return std::string();
    // The first is to be renewed at once, the second lasts.
    return "{\"AccessKeyId\": \"A\", \"SecretAccessKey\" : \"B\\/\", \"Token\":\"t" +
           std::to_string(i) + "\", \"Expiration\":\"" + in_seconds(i == 0 ? 0 : 3600) + "\"}";
  });
  set("AWS_CONTAINER_CREDENTIALS_FULL_URI", server_->endpoint() + "/creds");
  set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "the-ticket");
  EXPECT_EQ(*get(), (Credentials{"A", "B/", "t0"}));
  EXPECT_EQ(get()->session_token, "t1");
  EXPECT_EQ(get()->session_token, "t1");
  EXPECT_EQ(server_->asked().front().target, "/creds");
}

TEST_F(FoundCredentialsTest, AServiceThatStumblesIsNoEnd) {
  serve([](size_t i, const Asked&) {
    if (i > 0) return std::string();
    // To be renewed in 3 s of its 4: asked at once by one who was refused.
    return "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"B\",\"Token\":\"t\",\"Expiration\":\"" +
           in_seconds(3600) + "\"}";
  });
  set("AWS_CONTAINER_CREDENTIALS_FULL_URI", server_->endpoint() + "/creds");
  const Credentials first = *get();
  EXPECT_EQ(*get(first), first) << "they last, and nothing better is to be had";
}

TEST_F(FoundCredentialsTest, AServiceThatNeverAnsweredMayBeAskedAgain) {
  serve([](size_t, const Asked&) { return std::string(); });
  set("AWS_CONTAINER_CREDENTIALS_FULL_URI", server_->endpoint() + "/creds");
  EXPECT_EQ(get().status().code(), Code::kUnavailable);
}

TEST_F(FoundCredentialsTest, AServiceElsewhereMustBeTrusted) {
  set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.org/creds");
  EXPECT_EQ(get().status().code(), Code::kInvalidArgument);
  set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://localhost.example.org/creds");
  EXPECT_EQ(get().status().code(), Code::kInvalidArgument);
}

TEST_F(FoundCredentialsTest, AWebIdentityIsExchanged) {
  serve([](size_t, const Asked& asked) {
    if (asked.target.find("WebIdentityToken=a%2Fb") == std::string::npos ||
        asked.target.find("RoleArn=arn%3Ax") == std::string::npos) {
      return std::string();
    }
    return "<R><Credentials><AccessKeyId>A</AccessKeyId><SecretAccessKey>B</SecretAccessKey>"
           "<SessionToken>C</SessionToken><Expiration>" +
           in_seconds(900) + "</Expiration></Credentials></R>";
  });
  write("token", "a/b\n");
  set("AWS_WEB_IDENTITY_TOKEN_FILE", folder_ + "/token");
  set("AWS_ROLE_ARN", "arn:x");
  set("AWS_ENDPOINT_URL_STS", server_->endpoint());
  EXPECT_EQ(*get(), (Credentials{"A", "B", "C"}));
}

TEST_F(FoundCredentialsTest, AMachineTellsTheKeysOfItsRole) {
  serve([](size_t, const Asked& asked) -> std::string {
    if (asked.method == "PUT") return "session";
    if (asked.header("x-aws-ec2-metadata-token") != "session") return "";
    if (asked.target.ends_with("/security-credentials/")) return "reader\n";
    if (!asked.target.ends_with("/reader")) return "";
    return "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"B\",\"Token\":\"C\"}";
  });
  set("AWS_EC2_METADATA_DISABLED", "");
  set("AWS_EC2_METADATA_SERVICE_ENDPOINT", server_->endpoint());
  EXPECT_EQ(*get(), (Credentials{"A", "B", "C"}));
}

TEST(CredentialTexts, TimesAndStrings) {
  EXPECT_EQ(seconds_of("1970-01-02T00:00:01Z"), 86401);
  EXPECT_EQ(seconds_of("soon"), 0);
  EXPECT_EQ(json_text("{\"a\":\"x\\\"y\"}", "a"), "x\"y");
  EXPECT_EQ(json_text("{\"a\": 5}", "a"), "");
  EXPECT_EQ(json_text("{\"a\"", "a"), "");
}

}  // namespace
}  // namespace overlord::store
