// What it takes to hand a buffer to another process on this host and hear that it was let go:
// description and lease out, view made and first and last byte read there, release back. Two
// processes, sizes from 64 kB to 500 MB; percentiles of the round trip in microseconds. And what
// acquiring and giving back a buffer of the shared pool takes, next to the ordinary one.
#include <benchmark/benchmark.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "overlord/base/bytes.h"
#include "overlord/runtime/steady_clock.h"
#include "overlord/transport/shared/lease_book.h"
#include "overlord/transport/shared/segment_map.h"
#include "overlord/transport/shared/shared_pool.h"
#include "overlord/transport/unix_link.h"

namespace overlord::transport {
namespace {

// The reader's side; ends with the link.
void read_all(runtime::Descriptor socket) {
  auto thread = LoopThread::start();
  SegmentMap map;
  std::mutex mutex;
  std::condition_variable changed;
  bool closed = false;
  const auto received = [&map](UnixLink& link, ReceivedFrame frame) {
    ByteReader in({frame.payload.data, frame.payload.size});
    const SegmentRef ref = {in.u64(), in.u64()};
    const uint64_t size = in.u64(), segment_bytes = in.u64();
    const std::string lease(in.raw(12));
    if (!frame.descriptors.empty()) {
      if (!map.add(ref.segment, segment_bytes, std::move(frame.descriptors[0])).ok()) std::abort();
    }
    const auto view = map.view(ref, size, [&link, &lease] {
      if (!link.send(lease).ok()) std::abort();
    });
    if (!view.ok()) std::abort();
    benchmark::DoNotOptimize(view->data[0] + view->data[size - 1]);
  };
  const auto link =
      UnixLink::adopt((*thread)->loop(), std::move(socket), {"the owner"}, [&](UnixLink&) {
        return LinkCallbacks{received, [&](UnixLink&, const Status&) {
                               std::lock_guard lock(mutex);
                               closed = true;
                               changed.notify_one();
                             }};
      });
  if (!link.ok()) std::abort();
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return closed; });
}

// One round trip at a time over a link to a process of its own.
class Owner {
 public:
  explicit Owner(size_t size_bytes) : size_bytes_(size_bytes) {
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) std::abort();
    child_ = fork();  // the only thread so far
    if (child_ == 0) {
      close(sockets[0]);
      read_all(runtime::Descriptor(sockets[1]));
      _exit(0);
    }
    close(sockets[1]);
    pool_ = *SharedPool::make({"bench", 64 << 20, uint64_t{2} << 30, true});
    thread_ = *LoopThread::start();
    const auto released = [this](UnixLink& from, ReceivedFrame frame) {
      ByteReader in({frame.payload.data, frame.payload.size});
      const Lease lease = {in.u32(), in.u64()};
      if (!book_.release(from.id(), lease)) std::abort();
      std::lock_guard lock(mutex_);
      back_ = true;
      changed_.notify_one();
    };
    link_ = *UnixLink::adopt(thread_->loop(), runtime::Descriptor(sockets[0]), {"the reader"},
                             [&](UnixLink&) { return LinkCallbacks{released, nullptr}; });
    book_.add_peer(link_->id());
  }
  ~Owner() {
    link_->close();
    thread_.reset();
    waitpid(child_, nullptr, 0);
  }

  int64_t round_trip_ns() {
    const auto buffer = pool_->acquire(size_bytes_);
    buffer->data.get()[0] = buffer->data.get()[size_bytes_ - 1] = 1;
    const int64_t begin_ns = runtime::steady_now_ns();
    const SegmentRef ref = *pool_->find(buffer->data.get());
    const Lease lease = *book_.grant(link_->id(), buffer->data, size_bytes_);
    OutgoingFrame frame;
    const auto segment = pool_->segment(ref.segment);
    if (ref.segment != passed_) frame.descriptors = {pool_->held_descriptor(ref.segment)};
    passed_ = ref.segment;
    ByteWriter out;
    out.u64(ref.segment);
    out.u64(ref.offset);
    out.u64(size_bytes_);
    out.u64(segment->size_bytes());
    out.u32(lease.number);
    out.u64(lease.generation);
    frame.pieces = {runtime::Bytes::copy_of(out.take())};
    if (!link_->send(std::move(frame)).ok()) std::abort();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return back_; });
    back_ = false;
    return runtime::steady_now_ns() - begin_ns;
  }

 private:
  const size_t size_bytes_;
  pid_t child_ = -1;
  std::shared_ptr<SharedPool> pool_;
  std::unique_ptr<LoopThread> thread_;
  std::shared_ptr<UnixLink> link_;
  LeaseBook book_;
  SegmentId passed_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool back_ = false;
};

void handover(benchmark::State& state) {
  Owner owner(static_cast<size_t>(state.range(0)));
  for (int i = 0; i < 200; ++i) owner.round_trip_ns();
  std::vector<int64_t> times;
  for (auto _ : state) times.push_back(owner.round_trip_ns());
  std::sort(times.begin(), times.end());
  const auto at = [&](double part) {
    return static_cast<double>(times[static_cast<size_t>(part * (times.size() - 1))]) / 1000.0;
  };
  state.counters["p50_us"] = at(0.5);
  state.counters["p99_us"] = at(0.99);
}
BENCHMARK(handover)
    ->ArgName("bytes")
    ->Arg(64 << 10)
    ->Arg(1 << 20)
    ->Arg(16 << 20)
    ->Arg(500'000'000)
    ->Iterations(20'000)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

void acquire(benchmark::State& state, const std::shared_ptr<runtime::BufferPool>& pool) {
  const auto size = static_cast<size_t>(state.range(0));
  std::vector<runtime::Buffer> held;
  for (int i = 0; i < 20; ++i) held.push_back(pool->acquire(size / 2 + i * 1000));
  for (auto _ : state) benchmark::DoNotOptimize(pool->acquire(size));
}
void acquire_shared(benchmark::State& state) {
  const auto pool = *SharedPool::make({"bench", 64 << 20, uint64_t{1} << 30, true});
  acquire(state, pool->buffers());
}
void acquire_private(benchmark::State& state) {
  acquire(state, runtime::BufferPool::make(uint64_t{1} << 30));
}
BENCHMARK(acquire_shared)->Arg(10'000)->Arg(1 << 20);
BENCHMARK(acquire_private)->Arg(10'000)->Arg(1 << 20);

}  // namespace
}  // namespace overlord::transport
