// TransformPool: a users' function over rows of text, in several seats at once. Rows are dealt to
// calls of a few; a call that kills, hangs or bloats whoever runs it is tried once more, then cut
// in halves until the one row is found, which is bad and is never given to the function again. One
// call in so many is made twice, its rows turned round, and both must agree. Owned by the node; one
// thread per seat. It never blocks apply(), calls back exactly once and leaves nothing behind.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/runtime/encoder_costs.h"
#include "overlord/runtime/row_transform.h"
#include "overlord/workers/seat_pool.h"
#include "overlord/workers/transform_runner.h"

namespace overlord::workers {

struct TransformPoolOptions {
  std::string function;  // module:name, for messages
  size_t workers = 1;
  size_t batch_rows = 64;
  uint32_t check_every = 0;                     // 0: no call is made twice
  uint64_t max_row_bytes = uint64_t{64} << 20;  // a row that comes out larger is bad
  // Rows may be found bad for what is no function of their bytes; else it ends the stream.
  bool may_decide = true;
  uint64_t give_up_after = 8;  // such rows
  bool items = false;          // rows are tickets of media items, answers digests: for messages
  std::function<std::unique_ptr<TransformRunner>()> make_runner;
  std::function<uint64_t()> worker_bytes = {};  // resident, of the processes of all runners
  // Whoever runs a call gives up; called first when the pool ends. May be empty.
  std::function<void()> stop = {};
};

struct TransformPoolStats {
  uint64_t checked = 0;  // calls made twice
  uint64_t retried = 0;  // calls that failed and were made again
};

class TransformPool final : public runtime::RowTransform, public runtime::EncoderCosts {
 public:
  static Result<std::unique_ptr<TransformPool>> make(TransformPoolOptions options);
  // Everything not yet answered is answered with kCancelled. Not from a callback of the pool.
  ~TransformPool() override { end(); }
  TransformPool(const TransformPool&) = delete;
  TransformPool& operator=(const TransformPool&) = delete;

  // kUserFunction: no worker can be started, the function is not deterministic, or a row was found
  // that it cannot bear where that may not be decided.
  void apply(runtime::TextRows rows, runtime::CancelToken cancel,
             runtime::TransformDone done) override;
  // What destruction begins with, for an owner whose callbacks still call apply() meanwhile.
  void end() {
    if (!seats_.ending()) seats_.end(options_.stop);
  }

  TransformPoolStats stats() const { return {sample_.taken(), retried_}; }
  uint64_t worker_bytes() const override {
    return options_.worker_bytes ? options_.worker_bytes() : 0;
  }

 private:
  using Rows = std::vector<uint32_t>;  // of one Work, ascending
  struct Piece {
    Rows rows;
    TransformAnswer answer;
  };
  struct Work;  // one apply()
  struct Task {
    std::shared_ptr<Work> work;
    Rows rows;
    std::optional<TransformAnswer> first;  // the call is made again to compare
  };

  explicit TransformPool(TransformPoolOptions options);
  void serve(TransformRunner* runner, Task task);
  void carry_out(TransformRunner& runner, Task task);
  Status ready(TransformRunner& runner);
  Result<std::vector<Piece>> solve(TransformRunner& runner, const Work& work, const Rows& rows,
                                   int tries);
  Result<TransformAnswer> call(TransformRunner& runner, const Work& work, const Rows& rows,
                               int tries);
  Result<Piece> condemn(const Work& work, uint32_t row, const std::string& story);
  Status compare(TransformRunner& runner, const Task& task);
  const std::string* verdict(std::string_view text);
  void finish(const std::shared_ptr<Work>& work, Result<std::vector<Piece>> pieces);
  runtime::TransformedRows merge(const Work& work) const;
  Status named(const Status& status) const;

  const TransformPoolOptions options_;
  CallSample sample_;
  std::atomic<uint64_t> retried_{0};
  std::mutex mutex_;
  uint64_t condemned_ OVERLORD_GUARDED_BY(mutex_) = 0;
  // By the digest of a row's text: what was decided once stays so, also when it is read again.
  std::map<std::pair<uint64_t, uint64_t>, std::string> verdicts_ OVERLORD_GUARDED_BY(mutex_);
  SeatPool<TransformRunner, Task> seats_;  // last: its threads use all of the above
};

}  // namespace overlord::workers
