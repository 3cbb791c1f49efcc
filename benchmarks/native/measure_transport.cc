#include "measure_transport.h"

#include <sys/resource.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "overlord/runtime/steady_clock.h"
#include "overlord/transport/shared/shared_pool.h"
#include "raw_tcp.h"

namespace overlord::bench {
namespace {

constexpr char kBatch = 'b';  // one more, please
constexpr char kMark = 'm';   // the measurement begins, or ends
constexpr uint64_t kAheadBytes = 128 << 20;
constexpr uint64_t kSourceBytes = 256 << 20;  // more than caches hold: nobody sends what is hot
constexpr uint64_t kWarmBytes = 512 << 20;

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

uint64_t all_bytes(const TransportRun& run) { return run.batches * run.batch_bytes; }

uint32_t batches_of(uint64_t bytes, uint64_t batch_bytes, uint32_t least) {
  return std::max<uint32_t>(least, static_cast<uint32_t>(bytes / batch_bytes));
}

transport::WireLimits limits_of(const TransportRun& run) {
  transport::WireLimits limits;
  limits.connections = run.streams;
  limits.slice_bytes = run.slice_bytes;
  limits.credit_bytes = std::max(limits.credit_bytes, 4 * run.batch_bytes);
  limits.queue_limit_bytes = std::max(limits.queue_limit_bytes, 8 * run.batch_bytes);
  limits.bulk_bytes = std::min(limits.bulk_bytes, run.batch_bytes / 2);
  return limits;
}

// What a sender has to send, and what it was told by the taker.
class Source {
 public:
  explicit Source(const TransportRun& run) {
    for (uint32_t i = 0; i < batches_of(std::min(kSourceBytes, all_bytes(run)), run.batch_bytes, 2);
         ++i) {
      auto bytes = std::make_shared<std::string>(run.batch_bytes, static_cast<char>('a' + i % 26));
      batches_.push_back({bytes, bytes->data(), bytes->size()});
    }
  }

  // On one thread.
  void hear(char what, const std::function<void(runtime::Bytes)>& send) {
    if (what == kMark) {
      marks_.emplace_back(runtime::steady_now_ns(), cpu_seconds());
    } else if (what == kBatch) {
      send(batches_[next_++ % batches_.size()]);
    }
  }

  Result<TransportFigures> figures() const {
    if (marks_.size() != 2) return Status(Code::kUnavailable, "the taker left too early");
    return TransportFigures{0, static_cast<double>(marks_[1].first - marks_[0].first) * 1e-9,
                            marks_[1].second - marks_[0].second};
  }

 private:
  std::vector<runtime::Bytes> batches_;
  size_t next_ = 0;
  std::vector<std::pair<int64_t, double>> marks_;
};

Result<TransportFigures> send_over_wire(const TransportRun& run,
                                        const std::function<void(const std::string&)>& listening) {
  Source source(run);
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  const auto accepted = [&](const transport::LinkPtr& link, const std::string&) {
    return transport::WireCallbacks{
        [&source, link](runtime::Bytes frame) {
          for (size_t i = 0; i < frame.size; ++i) {
            source.hear(frame.data[i], [&](runtime::Bytes batch) { link->send_held(batch); });
          }
        },
        [&](const Status&) {
          const std::lock_guard lock(mutex);
          over = true;
          changed.notify_all();
        }};
  };
  OVERLORD_TRY(const auto server,
               transport::WireServer::listen(run.address, run.security, limits_of(run), accepted));
  listening(server->address());
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return over; });
  }
  server->close();
  return source.figures();
}

Result<TransportFigures> send_raw(const TransportRun& run,
                                  const std::function<void(const std::string&)>& listening) {
  Source source(run);
  OVERLORD_TRY(const auto sender,
               RawTcpSender::listen(run.address, {run.streams, run.slice_bytes}));
  listening(sender->address());
  OVERLORD_RETURN_IF_ERROR(sender->serve([&](char what) {
    source.hear(what, [&](runtime::Bytes batch) { sender->send(std::move(batch)); });
  }));
  return source.figures();
}

// Orders batches, some ahead, and counts what comes.
class Orders {
 public:
  explicit Orders(const TransportRun& run)
      : run_(run), ahead_(batches_of(kAheadBytes, run.batch_bytes, 2)) {}

  // On any thread.
  void came(const runtime::Bytes& batch) {
    const bool right =
        batch.size == run_.batch_bytes && batch.data[0] == batch.data[batch.size - 1];
    const std::lock_guard lock(mutex_);
    if (!right) failure_ = bad_data("a batch came that was not sent");
    ++came_;
    changed_.notify_all();
  }
  void lost(const Status& why) {
    const std::lock_guard lock(mutex_);
    failure_ = why;
    changed_.notify_all();
  }

  Status take(uint32_t count, const std::function<void(char)>& say) {
    std::unique_lock lock(mutex_);
    const uint64_t end = came_ + count;
    uint64_t ordered = came_;
    while (came_ < end) {
      for (; ordered < std::min(end, came_ + ahead_); ++ordered) say(kBatch);
      changed_.wait(lock, [&] {
        return !failure_.ok() || came_ >= end || (ordered < end && ordered < came_ + ahead_);
      });
      OVERLORD_RETURN_IF_ERROR(failure_);
    }
    return {};
  }

 private:
  const TransportRun& run_;
  const uint32_t ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t came_ = 0;
  Status failure_;
};

Result<TransportFigures> measure(const TransportRun& run, Orders* orders,
                                 const std::function<void(char)>& say) {
  const uint64_t warm = std::min(kWarmBytes, all_bytes(run));
  OVERLORD_RETURN_IF_ERROR(orders->take(batches_of(warm, run.batch_bytes, 2), say));
  say(kMark);
  const double cpu = cpu_seconds();
  const int64_t begin_ns = runtime::steady_now_ns();
  OVERLORD_RETURN_IF_ERROR(orders->take(run.batches, say));
  const int64_t end_ns = runtime::steady_now_ns();
  const double used = cpu_seconds() - cpu;
  say(kMark);
  say(kBatch);  // after it the mark has been heard
  return TransportFigures{all_bytes(run), static_cast<double>(end_ns - begin_ns) * 1e-9, used};
}

}  // namespace

Result<TransportFigures> send_batches(const TransportRun& run,
                                      const std::function<void(const std::string&)>& listening) {
  return run.raw ? send_raw(run, listening) : send_over_wire(run, listening);
}

Result<TransportFigures> take_batches(const TransportRun& run) {
  if (run.batch_bytes < 4096 || run.batches == 0 || run.streams == 0 || run.slice_bytes == 0) {
    return invalid_argument("batches of 4 kB at least, one of them, one stream, slices");
  }
  const uint64_t limit = (batches_of(kAheadBytes, run.batch_bytes, 2) + 2) * run.batch_bytes;
  OVERLORD_TRY(const auto pool, transport::SharedPool::make({"measure", limit, 2 * limit}));
  Orders orders(run);
  const auto came = [&](const runtime::Bytes& batch) { orders.came(batch); };
  Result<TransportFigures> out = internal_error("nothing was measured");
  if (run.raw) {
    OVERLORD_TRY(const auto taker, RawTcpTaker::call(run.address, {run.streams, run.slice_bytes},
                                                     pool->buffers(), came));
    out = measure(run, &orders, [&](char what) { taker->say(what); });
    static_cast<void>(out.ok() ? orders.take(1, [](char) {}) : Status());
    return out;
  }
  OVERLORD_TRY(const transport::LinkPtr link,
               transport::connect_wire(run.address, run.security, limits_of(run), pool->buffers(),
                                       [&](const transport::LinkPtr&) {
                                         return transport::WireCallbacks{
                                             came, [&](const Status& why) { orders.lost(why); }};
                                       }));
  out = measure(run, &orders, [&](char what) { link->send(std::string(1, what)); });
  static_cast<void>(out.ok() ? orders.take(1, [](char) {}) : Status());
  return out;
}

}  // namespace overlord::bench
