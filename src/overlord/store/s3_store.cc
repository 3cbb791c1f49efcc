#include "overlord/store/s3_store.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "overlord/base/rng.h"
#include "overlord/runtime/quote.h"
#include "overlord/runtime/steady_clock.h"
#include "overlord/store/s3_uri.h"

namespace overlord::store {
namespace {

using runtime::quote;

// Of a body that has no bytes, as that of every GET and HEAD.
constexpr const char* kNoBody =
    "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr size_t kMostListText = 8 << 20;
constexpr int64_t kSecond = 1'000'000'000;
// A store that asks for fewer requests is left alone for longer than one that stumbled.
constexpr int64_t kSlowDownFactor = 8;
constexpr uint32_t kMostRenewals = 3;

std::string amazon(const std::string& region) {
  return "https://s3." + region + ".amazonaws.com" + (region.starts_with("cn-") ? ".cn" : "");
}

Status check_options(const S3Options& options) {
  const std::string& endpoint = options.endpoint;
  if (!endpoint.starts_with("http://") && !endpoint.starts_with("https://")) {
    return invalid_argument("endpoint of the store " + quote(endpoint) +
                            " is no URL; write http://HOST:PORT or https://HOST");
  }
  const std::string_view host = std::string_view(endpoint).substr(endpoint.find("://") + 3);
  if (host.find('@') != std::string_view::npos) {
    return invalid_argument(
        "endpoint of the store has a user name or password; credentials come from the environment "
        "or a profile, never from a URL");
  }
  if (host.empty() || host.find_first_of("?# ") != std::string_view::npos) {
    return invalid_argument("endpoint of the store " + quote(endpoint) +
                            " names no host; write http://HOST:PORT or https://HOST");
  }
  return {};
}

}  // namespace

// One answer that somebody waits for, over all its attempts. Touched by one thread at a time.
struct S3Store::Job {
  std::string uri;
  HttpRequest request;  // not signed, without a buffer
  uint64_t body_bytes = 0;
  std::function<Judged(const HttpAnswer&)> judge;
  std::function<void(HttpAnswer)> good;
  std::function<void(Status)> bad;

  int64_t begun_ns = 0;
  int64_t patience_ns = 0;
  bool may_hedge = false;
  bool over = false;  // answered; what else comes is late
  std::vector<runtime::CancelToken> live;
  uint32_t attempts = 0;
  uint32_t renewals = 0;
  Credentials used;
  std::optional<Credentials> refused;
};

struct S3Store::Listing {
  ListRequest request;
  runtime::CancelToken cancel;
  ListDone done;
  std::string token;
  std::vector<ObjectInfo> found;
};

Result<std::unique_ptr<S3Store>> S3Store::make(S3Options options,
                                               std::shared_ptr<runtime::BufferPool> pool,
                                               std::shared_ptr<CredentialSource> credentials) {
  if (options.region.empty()) options.region = "us-east-1";
  if (options.endpoint.empty()) options.endpoint = amazon(options.region);
  while (options.endpoint.ends_with('/')) options.endpoint.pop_back();
  OVERLORD_RETURN_IF_ERROR(check_options(options));
  std::unique_ptr<S3Store> store(
      new S3Store(std::move(options), std::move(pool), std::move(credentials)));
  OVERLORD_TRY(store->client_, HttpClient::make(store->options_.connections));
  store->credentials_->use(store->client_.get());
  return store;
}

S3Store::S3Store(S3Options options, std::shared_ptr<runtime::BufferPool> pool,
                 std::shared_ptr<CredentialSource> credentials)
    : options_(std::move(options)),
      pool_(std::move(pool)),
      credentials_(std::move(credentials)),
      limit_(std::max(options_.connections, 1u)),
      hedges_(options_.first_hedge_ns, options_.least_hedge_ns) {
  OVERLORD_CHECK(pool_ != nullptr && credentials_ != nullptr, "a store has memory and a name");
}

std::string S3Store::url_of(const std::string& bucket, const std::string& key) const {
  const std::string path = percent_encoded(key, /*keep_slash=*/true);
  // A name with dots fits no certificate of a host one level above.
  if (options_.path_style || bucket.find_first_of("._") != std::string::npos) {
    return options_.endpoint + "/" + bucket + "/" + path;
  }
  const size_t host = options_.endpoint.find("://") + 3;
  return options_.endpoint.substr(0, host) + bucket + "." + options_.endpoint.substr(host) + "/" +
         path;
}

// Looking for credentials may read files: not on the caller's thread.
void S3Store::begin(const std::shared_ptr<Job>& job) {
  client_->after(0, [this, job] { attempt(job); });
}

void S3Store::attempt(const std::shared_ptr<Job>& job) {
  credentials_->get(job->refused, [this, job](Result<Credentials> credentials) {
    if (job->over) return;
    if (credentials.ok()) return send(job, *credentials);
    ++job->attempts;
    if (!job->live.empty()) return;  // the one before may still answer
    if (credentials.status().code() == Code::kUnavailable) {
      return try_again(job, {Verdict::kTransient, credentials.status()});
    }
    end(job);
    job->bad(credentials.status());
  });
}

void S3Store::send(const std::shared_ptr<Job>& job, const Credentials& credentials) {
  HttpRequest request = job->request;
  if (!credentials.access_key.empty()) {
    request.region = options_.region;
    request.access_key = credentials.access_key;
    request.secret_key = credentials.secret_key;
    request.headers.emplace_back(kNoBody);
    if (!credentials.session_token.empty()) {
      request.headers.push_back("x-amz-security-token: " + credentials.session_token);
    }
  }
  job->used = credentials;
  request.ca_file = options_.ca_file;
  const auto body_s = static_cast<double>(job->body_bytes) /
                      static_cast<double>(std::max<uint64_t>(options_.least_bytes_per_s, 1));
  request.limit_ns = options_.attempt_ns + static_cast<int64_t>(body_s * kSecond);
  job->live.push_back(request.withdrawn);
  ++job->attempts;
  ++counts_.requests;
  const int64_t begun_ns = runtime::steady_now_ns();
  client_->start(std::move(request), [this, job, begun_ns](HttpAnswer answer) {
    answered(job, begun_ns, std::move(answer));
  });
  if (!job->may_hedge || job->live.size() > 1) return;
  client_->after(hedges_.after_ns(),
                 [this, job, attempts = job->attempts] { hedge(job, attempts); });
}

void S3Store::hedge(const std::shared_ptr<Job>& job, uint32_t attempts) {
  const bool waits = !job->over && job->attempts == attempts && job->live.size() == 1;
  if (!waits || job->request.cancel.cancelled() || !hedges_.take()) return;
  ++counts_.hedges;
  attempt(job);
}

// Whatever else is on its way for this job loses its connection.
void S3Store::end(const std::shared_ptr<Job>& job) {
  job->over = true;
  for (runtime::CancelToken& live : job->live) live.cancel();
  job->live.clear();
}

void S3Store::note_good(const Job& job, int64_t begun_ns) {
  if (job.may_hedge) hedges_.note(runtime::steady_now_ns() - begun_ns);
  if (limit_ >= options_.connections || ++good_in_a_row_ < limit_) return;
  good_in_a_row_ = 0;
  client_->set_limit(++limit_);
}

// Many requests hear of it at once: that is one word, not many.
void S3Store::note_slow_down() {
  ++counts_.slow_downs;
  const int64_t now_ns = runtime::steady_now_ns();
  if (cut_ns_ != 0 && now_ns - cut_ns_ < kSecond) return;
  cut_ns_ = now_ns;
  good_in_a_row_ = 0;
  limit_ = std::max(limit_ / 2, 1u);
  client_->set_limit(limit_);
}

void S3Store::answered(const std::shared_ptr<Job>& job, int64_t begun_ns, HttpAnswer answer) {
  counts_.bytes += answer.body_bytes;
  if (job->over) return;
  const Judged judged = job->judge(answer);
  switch (judged.verdict) {
    case Verdict::kGood:
      end(job);
      note_good(*job, begun_ns);
      return job->good(std::move(answer));
    case Verdict::kFinal:
      end(job);
      return job->bad(judged.status);
    case Verdict::kExpired:
      ++counts_.renewals;
      ++job->renewals;
      job->refused = job->used;
      break;
    case Verdict::kSlowDown:
      note_slow_down();
      break;
    case Verdict::kTransient:
      break;
  }
  job->live.pop_back();  // which of two ended does not matter: one is left
  if (!job->live.empty()) return;
  if (job->renewals <= kMostRenewals) return try_again(job, judged);
  end(job);
  job->bad(judged.status);
}

void S3Store::try_again(const std::shared_ptr<Job>& job, const Judged& judged) {
  const int64_t spent_ns = runtime::steady_now_ns() - job->begun_ns;
  const uint32_t doublings = std::min(job->attempts - 1, 20u);
  int64_t most_ns = options_.first_backoff_ns << doublings;
  if (judged.verdict == Verdict::kSlowDown) most_ns *= kSlowDownFactor;
  most_ns = std::clamp<int64_t>(most_ns, 1, options_.longest_backoff_ns);
  // New credentials need no rest, unless they are refused as well.
  if (judged.verdict == Verdict::kExpired && job->renewals == 1) most_ns = 1;
  const int64_t delay_ns =
      most_ns / 2 + static_cast<int64_t>(
                        uniform_below(options_.seed, ++drawn_, 0, static_cast<uint64_t>(most_ns)));
  if (spent_ns + delay_ns > job->patience_ns) {
    end(job);
    return job->bad({judged.status.code(), judged.status.message() + " (after " +
                                               std::to_string(job->attempts) + " attempts in " +
                                               std::to_string(spent_ns / kSecond) +
                                               " s; check the store and the way to it)"});
  }
  ++counts_.retries;
  client_->after(delay_ns, [this, job] { attempt(job); });
}

void S3Store::get(RangeRequest request, runtime::CancelToken cancel, RangeDone done) {
  if (request.size_bytes == 0) return done(Range{{}, request.etag});
  auto job = std::make_shared<Job>();
  job->uri = request.object.uri();
  job->request.url = url_of(request.object.bucket, request.object.key);
  job->request.cancel = std::move(cancel);
  job->request.headers.push_back("Range: bytes=" + std::to_string(request.offset) + "-" +
                                 std::to_string(request.offset + request.size_bytes - 1));
  if (!request.etag.empty()) {
    job->request.headers.push_back("If-Match: \"" + request.etag + "\"");
  }
  job->body_bytes = request.size_bytes;
  job->patience_ns = options_.patience_ns;
  job->may_hedge = true;
  job->request.room = [this, bytes = request.size_bytes] {
    runtime::Buffer buffer = pool_->acquire(bytes);
    buffer.size = bytes;
    return buffer;
  };
  job->begun_ns = runtime::steady_now_ns();
  job->judge = [request](const HttpAnswer& answer) { return judge_range(request, answer); };
  auto shared = std::make_shared<RangeDone>(std::move(done));
  job->good = [shared](const HttpAnswer& answer) {
    (*shared)(Range{answer.body.view(), plain_etag(answer.etag)});
  };
  job->bad = [shared](Status status) { (*shared)(std::move(status)); };
  begin(job);
}

void S3Store::head(ObjectName object, runtime::CancelToken cancel, InfoDone done) {
  auto job = std::make_shared<Job>();
  job->uri = object.uri();
  job->request.url = url_of(object.bucket, object.key);
  job->request.head = true;
  job->request.cancel = std::move(cancel);
  job->begun_ns = runtime::steady_now_ns();
  job->patience_ns = options_.ask_patience_ns;
  job->judge = [object](const HttpAnswer& answer) { return judge_head(object, answer); };
  auto shared = std::make_shared<InfoDone>(std::move(done));
  job->good = [shared, object](const HttpAnswer& answer) {
    (*shared)(ObjectInfo{object.key, answer.content_length, plain_etag(answer.etag)});
  };
  job->bad = [shared](Status status) { (*shared)(std::move(status)); };
  begin(job);
}

void S3Store::list(ListRequest request, runtime::CancelToken cancel, ListDone done) {
  auto listing = std::make_shared<Listing>();
  listing->request = std::move(request);
  listing->cancel = std::move(cancel);
  listing->done = std::move(done);
  next_page(listing);
}

// The query's fields are in the order in which they are signed.
void S3Store::next_page(const std::shared_ptr<Listing>& listing) {
  const std::string& bucket = listing->request.bucket;
  auto job = std::make_shared<Job>();
  job->uri = "s3://" + bucket + "/" + listing->request.prefix;
  std::string query;
  if (!listing->token.empty()) {
    query += "continuation-token=" + percent_encoded(listing->token, false) + "&";
  }
  if (listing->request.one_level) query += "delimiter=%2F&";
  query += "list-type=2&prefix=" + percent_encoded(listing->request.prefix, false);
  job->request.url = url_of(bucket, "") + "?" + query;
  job->request.cancel = listing->cancel;
  job->request.most_text = kMostListText;
  job->begun_ns = runtime::steady_now_ns();
  job->patience_ns = options_.ask_patience_ns;
  job->judge = [bucket](const HttpAnswer& answer) { return judge_list(bucket, answer); };
  job->good = [this, listing](const HttpAnswer& answer) {
    Result<ListPage> page = read_list_page(answer.text);
    const std::string& in = listing->request.bucket;
    if (!page.ok()) return listing->done(page.status().with_context("bucket " + quote(in)));
    for (ObjectInfo& object : page->objects) listing->found.push_back(std::move(object));
    if (listing->request.most > 0 && listing->found.size() > listing->request.most) {
      return listing->done(invalid_argument(
          "bucket " + quote(in) + " has more than " + std::to_string(listing->request.most) +
          " objects under " + quote(listing->request.prefix) + "; name a longer prefix"));
    }
    if (!page->next.empty() && page->next != listing->token) {
      listing->token = std::move(page->next);
      return next_page(listing);
    }
    std::sort(listing->found.begin(), listing->found.end(),
              [](const ObjectInfo& a, const ObjectInfo& b) { return a.key < b.key; });
    listing->done(std::move(listing->found));
  };
  job->bad = [listing](Status status) { listing->done(std::move(status)); };
  begin(job);
}

}  // namespace overlord::store
