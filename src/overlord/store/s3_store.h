// S3Store: Amazon's protocol, as most stores speak it, over HttpClient. Every request has a time
// within which it must end; what passes (5xx, resets, short bodies, silence) is tried again with
// jitter until `patience_ns` is over; every range is of the version that was asked for, or refused.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "overlord/base/status.h"
#include "overlord/runtime/buffer.h"
#include "overlord/store/credentials.h"
#include "overlord/store/hedge_rule.h"
#include "overlord/store/http_client.h"
#include "overlord/store/object_store.h"
#include "overlord/store/s3_answers.h"

namespace overlord::store {

struct S3Options {
  std::string endpoint;  // scheme://host[:port]; empty: Amazon's of the region
  std::string region;    // empty: us-east-1
  std::string ca_file;   // empty: the system's
  bool path_style = false;
  uint32_t connections = 16;
  // One attempt may take this, and the time its bytes take at the least rate that is borne.
  int64_t attempt_ns = 15'000'000'000;
  uint64_t least_bytes_per_s = 1 << 20;
  int64_t patience_ns = 300'000'000'000;     // for all attempts of one read
  int64_t ask_patience_ns = 30'000'000'000;  // ditto of a look or a listing: somebody sits there
  int64_t first_backoff_ns = 50'000'000;     // doubled from attempt to attempt
  int64_t longest_backoff_ns = 10'000'000'000;
  // An answer that is later than most is asked for a second time, once few answers tell what most
  // are; until then after this.
  int64_t first_hedge_ns = 2'000'000'000;
  int64_t least_hedge_ns = 100'000'000;
  uint64_t seed = 0;  // of the jitter
};

// Of all requests so far.
struct StoreCounts {
  std::atomic<uint64_t> requests{0};
  std::atomic<uint64_t> retries{0};
  std::atomic<uint64_t> slow_downs{0};
  std::atomic<uint64_t> renewals{0};
  std::atomic<uint64_t> hedges{0};
  std::atomic<uint64_t> bytes{0};
};

class S3Store final : public ObjectStore {
 public:
  static Result<std::unique_ptr<S3Store>> make(S3Options options,
                                               std::shared_ptr<runtime::BufferPool> pool,
                                               std::shared_ptr<CredentialSource> credentials);

  void get(RangeRequest request, runtime::CancelToken cancel, RangeDone done) override;
  void head(ObjectName object, runtime::CancelToken cancel, InfoDone done) override;
  void list(ListRequest request, runtime::CancelToken cancel, ListDone done) override;

  void after(int64_t delay_ns, runtime::Task task) override {
    client_->after(delay_ns, std::move(task));
  }

  // Requests at a time: halved when the store asks for fewer, and one more after a round of good
  // answers.
  uint32_t limit() const { return limit_; }
  const StoreCounts& counts() const { return counts_; }
  size_t active() const { return client_->active(); }

 private:
  struct Job;
  struct Listing;
  S3Store(S3Options options, std::shared_ptr<runtime::BufferPool> pool,
          std::shared_ptr<CredentialSource> credentials);

  std::string url_of(const std::string& bucket, const std::string& key) const;
  void begin(const std::shared_ptr<Job>& job);
  void attempt(const std::shared_ptr<Job>& job);
  void send(const std::shared_ptr<Job>& job, const Credentials& credentials);
  void hedge(const std::shared_ptr<Job>& job, uint32_t attempts);
  void answered(const std::shared_ptr<Job>& job, int64_t begun_ns, HttpAnswer answer);
  void end(const std::shared_ptr<Job>& job);
  void note_good(const Job& job, int64_t begun_ns);
  void note_slow_down();
  void try_again(const std::shared_ptr<Job>& job, const Judged& judged);
  void next_page(const std::shared_ptr<Listing>& listing);

  const S3Options options_;
  const std::shared_ptr<runtime::BufferPool> pool_;
  const std::shared_ptr<CredentialSource> credentials_;
  StoreCounts counts_;
  std::atomic<uint32_t> limit_;
  std::atomic<uint64_t> drawn_{0};  // numbers of the jitter
  // The client's thread's alone.
  HedgeRule hedges_;
  uint32_t good_in_a_row_ = 0;
  int64_t cut_ns_ = 0;                  // when the limit was halved
  std::unique_ptr<HttpClient> client_;  // last: its thread uses all of these
};

}  // namespace overlord::store
