#include "overlord/store/s3_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <map>

#include "overlord/store/s3_uri.h"
#include "overlord/store/scripted_server_test.h"

namespace overlord::store {
namespace {

using runtime::Bytes;
using std::chrono::steady_clock;

constexpr const char* kEtag = "0123456789abcdef";

std::string text_of(const Bytes& bytes) { return std::string(bytes.data, bytes.size); }

bool says(const Status& status, const std::string& part) {
  return status.message().find(part) != std::string::npos;
}

// A well-behaved store of one object.
Answer served(const Asked& asked, const std::string& object) {
  Answer answer;
  answer.headers = {"ETag: \"" + std::string(kEtag) + "\""};
  const std::string match = asked.header("if-match");
  if (!match.empty() && match != "\"" + std::string(kEtag) + "\"") return {412, {}, "", {}, {}, {}};
  const std::string range = asked.header("range");
  if (range.empty()) {
    answer.body = object;
    return answer;
  }
  const size_t dash = range.find('-');
  const size_t first = std::stoul(range.substr(6, dash - 6));
  if (first >= object.size()) return {416, {}, "", ~size_t{0}, false, false};
  const size_t last = std::min(std::stoul(range.substr(dash + 1)), object.size() - 1);
  answer.status = 206;
  answer.headers.push_back("Content-Range: bytes " + std::to_string(first) + "-" +
                           std::to_string(last) + "/" + std::to_string(object.size()));
  answer.body = object.substr(first, last - first + 1);
  return answer;
}

Answer refusal(int status, const std::string& code) {
  Answer answer;
  answer.status = status;
  answer.body = "<Error><Code>" + code + "</Code><Message>so it is</Message></Error>";
  return answer;
}

class S3StoreTest : public ::testing::Test {
 protected:
  // `odd` answers first, until it has no more to say.
  void start(std::function<std::optional<Answer>(size_t, const Asked&)> odd,
             S3Options options = {}) {
    server_ = std::make_unique<ScriptedServer>([this, odd](const Asked& asked) {
      const std::optional<Answer> answer = odd(count_++, asked);
      return answer ? *answer : served(asked, object_);
    });
    options.endpoint = server_->endpoint();
    options.path_style = true;
    options.first_backoff_ns = 1'000'000;
    options.longest_backoff_ns = 4'000'000;
    auto made = S3Store::make(options, runtime::BufferPool::make(1 << 20), credentials_);
    ASSERT_TRUE(made.ok()) << made.status().message();
    store_ = std::move(*made);
  }
  void start_with(std::vector<Answer> answers, S3Options options = {}) {
    start(
        [answers](size_t i, const Asked&) {
          return i < answers.size() ? std::optional<Answer>(answers[i]) : std::nullopt;
        },
        options);
  }

  Result<Range> get(uint64_t offset, uint64_t size, const std::string& etag = kEtag) {
    std::promise<Result<Range>> answer;
    store_->get({{"bucket", "a/b c.bin"}, offset, size, etag}, cancel_,
                [&](Result<Range> range) { answer.set_value(std::move(range)); });
    return answer.get_future().get();
  }
  Result<ObjectInfo> head() {
    std::promise<Result<ObjectInfo>> answer;
    store_->head({"bucket", "a/b c.bin"}, cancel_,
                 [&](Result<ObjectInfo> info) { answer.set_value(std::move(info)); });
    return answer.get_future().get();
  }
  Result<std::vector<ObjectInfo>> list(ListRequest request) {
    std::promise<Result<std::vector<ObjectInfo>>> answer;
    store_->list(std::move(request), cancel_, [&](Result<std::vector<ObjectInfo>> found) {
      answer.set_value(std::move(found));
    });
    return answer.get_future().get();
  }
  void expect_whole(const Result<Range>& range) {
    ASSERT_TRUE(range.ok()) << range.status().message();
    EXPECT_EQ(text_of(range->bytes), object_.substr(3, 5));
    EXPECT_EQ(range->etag, kEtag);
  }

  std::string object_ = "0123456789 the object";
  std::atomic<size_t> count_{0};
  runtime::CancelToken cancel_;
  std::shared_ptr<CredentialSource> credentials_ =
      std::make_shared<FixedCredentials>(Credentials{"AKID", "top-secret", "a-token"});
  std::unique_ptr<ScriptedServer> server_;
  std::unique_ptr<S3Store> store_;  // first to go
};

TEST_F(S3StoreTest, ARangeIsSignedAndOfTheVersionThatWasIndexed) {
  start_with({});
  expect_whole(get(3, 5));
  const Asked asked = server_->asked().front();
  EXPECT_EQ(asked.target, "/bucket/a/b%20c.bin");
  EXPECT_EQ(asked.header("range"), "bytes=3-7");
  EXPECT_EQ(asked.header("if-match"), "\"" + std::string(kEtag) + "\"");
  EXPECT_TRUE(asked.header("authorization").starts_with("AWS4-HMAC-SHA256 Credential=AKID/"));
  EXPECT_EQ(asked.header("x-amz-security-token"), "a-token");
  EXPECT_EQ(asked.head.find("top-secret"), std::string::npos);
}

TEST_F(S3StoreTest, NobodySignsNothing) {
  credentials_ = std::make_shared<FixedCredentials>(Credentials{});
  start_with({});
  expect_whole(get(3, 5));
  EXPECT_EQ(server_->asked().front().header("authorization"), "");
}

TEST_F(S3StoreTest, AnotherVersionIsNeverServed) {
  start_with({});
  for (const Status& status : {get(3, 5, "other").status()}) {
    EXPECT_EQ(status.code(), Code::kSourceChanged);
    EXPECT_TRUE(says(status, "s3://bucket/a/b c.bin")) << status.message();
  }
  EXPECT_EQ(count_, 1u) << "and is not asked for again";
}

// A store that does not know If-Match.
TEST_F(S3StoreTest, AnotherVersionIsFoundByItsEtagToo) {
  start([&](size_t, const Asked& asked) {
    Answer answer = served({asked.method, asked.target, "\r\nRange: bytes=3-7\r\n"}, object_);
    return std::optional<Answer>(answer);
  });
  const Status status = get(3, 5, "other").status();
  EXPECT_EQ(status.code(), Code::kSourceChanged);
  EXPECT_TRUE(says(status, kEtag)) << status.message();
}

TEST_F(S3StoreTest, WhatIsGoneHasChangedAndWhatNeverWasIsNotFound) {
  start([](size_t, const Asked&) { return std::optional<Answer>(refusal(404, "NoSuchKey")); });
  EXPECT_EQ(get(3, 5).status().code(), Code::kSourceChanged);
  EXPECT_EQ(get(3, 5, "").status().code(), Code::kNotFound);
  EXPECT_EQ(head().status().code(), Code::kNotFound);
}

TEST_F(S3StoreTest, WhatEndsBeforeTheRangeIsNeverAShortAnswer) {
  start_with({});
  EXPECT_EQ(get(15, 100).status().code(), Code::kBadData);
  EXPECT_EQ(get(15, 100, "").status().code(), Code::kBadData);
  EXPECT_EQ(get(1000, 1, "").status().code(), Code::kBadData);
  EXPECT_EQ(get(1000, 1).status().code(), Code::kSourceChanged);
}

TEST_F(S3StoreTest, WhatPassesIsTriedAgain) {
  Answer cut = served({"GET", "/", "\r\nRange: bytes=3-7\r\n"}, object_);
  cut.body_sent = 2;
  Answer reset;
  reset.reset = true;
  start_with({refusal(500, "InternalError"), cut, reset, refusal(503, "SlowDown"),
              refusal(429, "TooManyRequests"), refusal(502, ""), cut});
  expect_whole(get(3, 5));
  EXPECT_EQ(count_, 8u);
  EXPECT_EQ(store_->counts().retries, 7u);
  EXPECT_EQ(store_->counts().slow_downs, 2u);
}

TEST_F(S3StoreTest, PatienceEndsAndSaysWhy) {
  S3Options options;
  options.patience_ns = 30'000'000;
  start([](size_t, const Asked&) { return std::optional<Answer>(refusal(503, "SlowDown")); },
        options);
  const Status status = get(3, 5).status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_TRUE(says(status, "SlowDown")) << status.message();
  EXPECT_TRUE(says(status, "attempts")) << status.message();
  EXPECT_GT(count_, 1u);
}

// A job that starts is not left for minutes before a store that is not there.
TEST_F(S3StoreTest, LooksAndListingsEndSoonerThanReads) {
  S3Options options;
  options.ask_patience_ns = 30'000'000;
  Answer reset;
  reset.reset = true;
  start([reset](size_t, const Asked&) { return std::optional<Answer>(reset); }, options);
  EXPECT_EQ(head().status().code(), Code::kUnavailable);
  EXPECT_EQ(list({"bucket", "p", false, 0}).status().code(), Code::kUnavailable);
}

// Two bytes a second are progress, and would go on for hours: the whole has a limit.
TEST_F(S3StoreTest, ADripEndsOnTimeAndIsAskedForAgain) {
  S3Options options;
  options.attempt_ns = 200'000'000;
  options.first_hedge_ns = 600'000'000'000;
  Answer drip = served({"GET", "/", "\r\nRange: bytes=3-7\r\n"}, object_);
  drip.drip = true;
  start_with({drip}, options);
  expect_whole(get(3, 5));
  EXPECT_EQ(count_, 2u);
}

TEST_F(S3StoreTest, ALateAnswerIsAskedForTwiceAndTheLoserLetsGo) {
  S3Options options;
  options.first_hedge_ns = 50'000'000;
  options.attempt_ns = 600'000'000'000;
  Answer drip = served({"GET", "/", "\r\nRange: bytes=3-7\r\n"}, object_);
  drip.drip = true;
  start_with({drip}, options);
  expect_whole(get(3, 5));
  EXPECT_EQ(count_, 2u);
  EXPECT_EQ(store_->counts().hedges, 1u);
  EXPECT_EQ(store_->counts().retries, 0u);
  steady_clock::time_point gone_at;
  EXPECT_TRUE(server_->wait_for_gone(&gone_at));
}

// A store that is slow as a whole is not asked for twice as much.
TEST_F(S3StoreTest, SecondRequestsAreFew) {
  S3Options options;
  options.first_hedge_ns = 20'000'000;
  options.connections = 32;
  Answer drip = served({"GET", "/", "\r\nRange: bytes=3-7\r\n"}, object_);
  drip.drip = true;
  start([drip](size_t, const Asked&) { return std::optional<Answer>(drip); }, options);
  std::atomic<int> answers{0};
  std::promise<void> all;
  for (int i = 0; i < 10; ++i) {
    store_->get({{"bucket", "key"}, 3, 5, kEtag}, cancel_, [&](const Result<Range>&) {
      if (++answers == 10) all.set_value();
    });
  }
  ASSERT_TRUE(server_->wait_for_asked(12));
  std::promise<void> later;  // behind the timers of all ten
  store_->after(3 * options.first_hedge_ns, [&] { later.set_value(); });
  later.get_future().wait();
  cancel_.cancel();
  all.get_future().wait();
  EXPECT_EQ(store_->counts().hedges, 2u);
}

TEST_F(S3StoreTest, AStoreThatAsksForFewerRequestsGetsFewer) {
  S3Options options;
  options.connections = 8;
  start_with({refusal(503, "SlowDown"), refusal(503, "SlowDown")}, options);
  expect_whole(get(3, 5));
  EXPECT_EQ(store_->limit(), 4u) << "two refusals at once are one word";
  for (int i = 0; i < 40; ++i) expect_whole(get(3, 5));
  EXPECT_EQ(store_->limit(), 8u);
}

TEST(HedgeRule, FollowsWhatMostAnswersTake) {
  HedgeRule rule(1000, 10);
  for (int i = 0; i < 15; ++i) rule.note(100);
  EXPECT_EQ(rule.after_ns(), 1000) << "not enough is known";
  rule.note(100);
  EXPECT_EQ(rule.after_ns(), 300);
  for (int i = 0; i < 64; ++i) rule.note(i % 20 == 0 ? 100'000 : 1);
  EXPECT_EQ(rule.after_ns(), 10) << "a slow tail does not move it";
  int taken = 0;
  while (rule.take()) ++taken;
  EXPECT_EQ(taken, 2 + 80 / 20);
}

TEST_F(S3StoreTest, ACancelledReadFreesItsConnection) {
  Answer drip = served({"GET", "/", "\r\nRange: bytes=3-7\r\n"}, object_);
  drip.drip = true;
  start_with({drip});
  auto answer = std::async(std::launch::async, [&] { return get(3, 5).status().code(); });
  ASSERT_TRUE(server_->wait_for_asked(1));
  const auto cancelled_at = steady_clock::now();
  cancel_.cancel();
  EXPECT_EQ(answer.get(), Code::kCancelled);
  steady_clock::time_point gone_at;
  ASSERT_TRUE(server_->wait_for_gone(&gone_at));
  EXPECT_EQ(store_->active(), 0u);
  // Five ticks of the client: 100 ms, and as much for a machine that is not quiet.
  EXPECT_LT(gone_at - cancelled_at, std::chrono::milliseconds(200));
}

TEST_F(S3StoreTest, DestructionAnswersWhatIsWaiting) {
  Answer drip = served({"GET", "/", "\r\nRange: bytes=3-7\r\n"}, object_);
  drip.drip = true;
  S3Options options;
  options.connections = 2;
  start([drip](size_t, const Asked&) { return std::optional<Answer>(drip); }, options);
  std::atomic<int> answers{0}, cancelled{0};
  for (int i = 0; i < 10; ++i) {
    store_->get({{"bucket", "key"}, 3, 5, kEtag}, {}, [&](Result<Range> range) {
      ++answers;
      if (range.status().code() == Code::kCancelled) ++cancelled;
    });
  }
  ASSERT_TRUE(server_->wait_for_asked(2));
  store_.reset();
  EXPECT_EQ(answers, 10);
  EXPECT_EQ(cancelled, 10);
}

class Renewed final : public CredentialSource {
 public:
  void get(const std::optional<Credentials>& refused, Done done) override {
    if (refused == now()) ++number_;
    done(now());
  }

 private:
  Credentials now() const { return {"AKID", "top-secret", "token-" + std::to_string(number_)}; }
  int number_ = 0;
};

TEST_F(S3StoreTest, AnExpiredTokenIsRenewedWithoutAFailedRead) {
  credentials_ = std::make_shared<Renewed>();
  start([](size_t i, const Asked& asked) -> std::optional<Answer> {
    const std::string token = asked.header("x-amz-security-token");
    if (token == "token-" + std::to_string(i / 2)) return std::nullopt;
    return refusal(400, "ExpiredToken");
  });
  expect_whole(get(3, 5));
  for (int i = 1; i < 4; ++i) expect_whole(get(3, 5));
  EXPECT_EQ(store_->counts().renewals, 2u);
}

TEST_F(S3StoreTest, AForbiddenObjectIsNamedWithoutSecrets) {
  start([](size_t, const Asked&) { return std::optional<Answer>(refusal(403, "AccessDenied")); });
  const Status status = get(3, 5).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(says(status, "AccessDenied")) << status.message();
  EXPECT_TRUE(says(status, "s3://bucket/a/b c.bin")) << status.message();
  EXPECT_FALSE(says(status, "top-secret"));
  EXPECT_FALSE(says(status, "a-token"));
  EXPECT_EQ(count_, 1u);
  EXPECT_EQ(head().status().code(), Code::kInvalidArgument);
}

TEST_F(S3StoreTest, ABucketElsewhereNamesItsRegion) {
  Answer moved = refusal(301, "PermanentRedirect");
  moved.headers.push_back("x-amz-bucket-region: eu-west-3");
  start([moved](size_t, const Asked&) { return std::optional<Answer>(moved); });
  EXPECT_TRUE(says(get(3, 5).status(), "eu-west-3")) << get(3, 5).status().message();
}

TEST_F(S3StoreTest, HeadTellsSizeAndVersion) {
  start_with({refusal(503, "")});
  const auto info = head();
  ASSERT_TRUE(info.ok()) << info.status().message();
  EXPECT_EQ(info->size_bytes, object_.size());
  EXPECT_EQ(info->etag, kEtag);
}

TEST_F(S3StoreTest, AListIsReadPageByPage) {
  const auto page = [](const std::string& entries, const std::string& next) {
    Answer answer;
    answer.body =
        "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"x\"><IsTruncated>" +
        std::string(next.empty() ? "false" : "true") + "</IsTruncated>" + entries +
        (next.empty() ? "" : "<NextContinuationToken>" + next + "</NextContinuationToken>") +
        "</ListBucketResult>";
    return answer;
  };
  const std::string z =
      "<Contents><Key>z&amp;&#x27;.bin</Key><ETag>&quot;e1&quot;</ETag><Size>7</Size></Contents>";
  const std::string a = "<Contents><Key>a.bin</Key><ETag>\"e2\"</ETag><Size>8</Size></Contents>";
  start_with({page(z, "to/ken+1="), refusal(500, ""), page(a, "")});
  const auto found = list({"bucket", "pre fix/", true, 0});
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0].key, "a.bin");
  EXPECT_EQ((*found)[1].key, "z&'.bin");
  EXPECT_EQ((*found)[1].etag, "e1");
  EXPECT_EQ((*found)[1].size_bytes, 7u);
  EXPECT_EQ(server_->asked()[2].target,
            "/bucket/?continuation-token=to%2Fken%2B1%3D&delimiter=%2F&list-type=2&"
            "prefix=pre%20fix%2F");
}

TEST_F(S3StoreTest, AListThatIsTooLongOrNoneIsRefused) {
  Answer page;
  page.body =
      "<ListBucketResult><Contents><Key>a</Key><Size>1</Size></Contents>"
      "<Contents><Key>b</Key><Size>1</Size></Contents></ListBucketResult>";
  Answer noise;
  noise.body = "<html>hello</html>";
  start_with({page, noise});
  EXPECT_EQ(list({"bucket", "p", false, 1}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(list({"bucket", "p", false, 0}).status().code(), Code::kBadData);
}

TEST(S3Store, AnEndpointThatIsNoneIsRefused) {
  for (const char* endpoint : {"localhost:9000", "http://", "http://user:secret@host", "ftp://h"}) {
    S3Options options;
    options.endpoint = endpoint;
    const Status status = S3Store::make(options, runtime::BufferPool::make(0),
                                        std::make_shared<FixedCredentials>(Credentials{}))
                              .status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << endpoint;
    EXPECT_FALSE(says(status, "secret"));
  }
}

TEST(S3Uri, NamesBucketAndKeyAsTheyStand) {
  const auto name = parse_s3_uri("s3://my-bucket/a%20b/c d.tar");
  ASSERT_TRUE(name.ok());
  EXPECT_EQ(name->bucket, "my-bucket");
  EXPECT_EQ(name->key, "a%20b/c d.tar");
  EXPECT_EQ(name->uri(), "s3://my-bucket/a%20b/c d.tar");
  EXPECT_EQ(percent_encoded("a b/ü~", true), "a%20b/%C3%BC~");
}

TEST(S3Uri, WhatNamesNoObjectIsRefused) {
  for (const char* uri : {"s3://", "s3://bucket", "s3://bucket/", "s3://b/key", "s3://b?x/key",
                          "s3://key:secret@bucket/key", "s3://*/key", "s3://..x/key"}) {
    const Status status = parse_s3_uri(uri).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << uri;
    EXPECT_FALSE(says(status, "secret"));
  }
}

}  // namespace
}  // namespace overlord::store
