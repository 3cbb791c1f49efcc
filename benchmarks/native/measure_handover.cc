#include "measure_handover.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "overlord/runtime/steady_clock.h"
#include "overlord/transport/carrier.h"
#include "overlord/transport/endpoint.h"

namespace overlord::bench {
namespace {

using protocol::Envelope;

constexpr uint32_t kWarmRounds = 100;
const protocol::Address kMaker = protocol::loader_address(0, 0);
const protocol::Address kTaker = protocol::constructor_address(0);

// How long threads of this process were ready to run and had no core, as the kernel counts it. Of
// the taker alone: a maker that loses its core does so mostly behind its send, to the taker.
class CoreWait {
 public:
  // The threads that there are now.
  CoreWait() {
    std::error_code error;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
      const std::string path = task.path().string() + "/schedstat";
      runtime::Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
      if (file.valid()) files_.push_back(std::move(file));
    }
  }

  // Nanoseconds since they were started, all together.
  int64_t total_ns() const {
    int64_t total = 0;
    for (const runtime::Descriptor& file : files_) {
      char text[96] = {};
      if (pread(file.get(), text, sizeof(text) - 1, 0) <= 0) continue;
      char* end = nullptr;
      std::strtoll(text, &end, 10);  // the time that it ran
      total += std::strtoll(end, nullptr, 10);
    }
    return total;
  }

 private:
  std::vector<runtime::Descriptor> files_;
};

// One side: a carrier, its endpoint, and what came in and waits for the thread that asked.
class Side {
 public:
  Side(std::string name, protocol::Address role, std::shared_ptr<transport::SharedPool> pool)
      : name_(std::move(name)), role_(role) {
    transport::CarrierOptions options;
    options.name = name_;
    options.pool = std::move(pool);
    options.plans.sources = 1;
    options.deliver = [this](Envelope envelope) {
      const std::lock_guard lock(mutex_);
      got_.push_back(std::move(envelope));
      changed_.notify_one();
    };
    carrier_ = std::make_unique<transport::Carrier>(std::move(options));
    carrier_->host({role});
  }
  ~Side() {
    if (endpoint_) endpoint_->close();
  }

  Status open(const std::string& directory) {
    transport::EndpointOptions options;
    options.directory = directory;
    options.self.name = name_;
    options.self.roles = {role_};
    options.admit = [](const protocol::Hello&) { return Status(); };
    options.connected = [](const protocol::Hello&) {};
    options.lost = [this](const std::string&) {
      const std::lock_guard lock(mutex_);
      lost_ = true;
      changed_.notify_one();
    };
    OVERLORD_TRY(endpoint_, transport::Endpoint::open(std::move(options), carrier_.get()));
    return {};
  }

  // Nothing when the other side is gone.
  std::optional<Envelope> wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return lost_ || !got_.empty(); });
    if (got_.empty()) return std::nullopt;
    Envelope out = std::move(got_.back());
    got_.pop_back();
    return out;
  }

  transport::Carrier& carrier() { return *carrier_; }
  transport::Endpoint& endpoint() { return *endpoint_; }

 private:
  const std::string name_;
  const protocol::Address role_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Envelope> got_;
  bool lost_ = false;
  std::unique_ptr<transport::Carrier> carrier_;
  std::unique_ptr<transport::Endpoint> endpoint_;
};

// The taker's process, until the maker is gone. What it answers is how long the bytes took.
int take_all(const std::string& directory) {
  Side side("constructors-0", kTaker, nullptr);
  if (!side.open(directory).ok()) return 1;
  side.carrier().set_roster({{{"loaders-0", 1, {kMaker}}}});
  side.endpoint().call("loaders-0");
  const CoreWait core;
  int64_t before_ns = core.total_ns();
  while (std::optional<Envelope> envelope = side.wait()) {
    const auto& payload = *std::get<protocol::PayloadPtr>(envelope->message);
    const auto* bytes = static_cast<const char*>(payload.spans.at(0).data);
    int64_t begin_ns = 0;
    std::memcpy(&begin_ns, bytes, sizeof begin_ns);
    const volatile char last = bytes[payload.spans[0].count - 1];
    static_cast<void>(last);
    const int64_t took_ns = runtime::steady_now_ns() - begin_ns;
    const int64_t queued_ns = core.total_ns() - before_ns;
    envelope.reset();  // the lease ends
    side.carrier().send({{},
                         kTaker,
                         kMaker,
                         protocol::Get{static_cast<uint64_t>(took_ns),
                                       static_cast<uint64_t>(std::min(queued_ns, took_ns))}});
    before_ns = core.total_ns();
  }
  return 0;
}

double at_us(std::vector<int64_t>& times, double part) {
  std::sort(times.begin(), times.end());
  return static_cast<double>(times[static_cast<size_t>(part * (times.size() - 1))]) / 1000.0;
}

Result<HandoverFigures> make_all(const std::string& directory, uint64_t size_bytes,
                                 uint32_t rounds) {
  OVERLORD_TRY(auto pool,
               transport::SharedPool::make({"measure", 16 << 20, 3 * size_bytes + (64 << 20)}));
  Side side("loaders-0", kMaker, pool);
  OVERLORD_RETURN_IF_ERROR(side.open(directory));
  OVERLORD_RETURN_IF_ERROR(side.endpoint().listen("loaders-0"));
  side.carrier().set_roster({{{"constructors-0", 1, {kTaker}}}});
  std::vector<int64_t> there, own, queued, round;
  HandoverFigures out;
  uint64_t sent_before = 0;
  for (uint32_t i = 0; i < kWarmRounds + rounds; ++i) {
    OVERLORD_TRY(const runtime::Buffer buffer, pool->acquire(size_bytes));
    auto payload = std::make_shared<protocol::Payload>();
    payload->step = i;
    payload->ordinals = {0};
    payload->spans = {
        {buffer.data.get(), nullptr, static_cast<uint32_t>(size_bytes), model::Element::kU8}};
    payload->holders = {buffer.data};
    buffer.data.get()[size_bytes - 1] = 1;
    const int64_t begin_ns = runtime::steady_now_ns();
    std::memcpy(buffer.data.get(), &begin_ns, sizeof begin_ns);
    side.carrier().send({{}, kMaker, kTaker, protocol::PayloadPtr(std::move(payload))});
    const std::optional<Envelope> answer = side.wait();
    if (!answer) return Status(Code::kUnavailable, "the taker is gone");
    if (i == kWarmRounds) sent_before = side.carrier().stats().bytes_sent;
    if (i < kWarmRounds) continue;
    round.push_back(runtime::steady_now_ns() - begin_ns);
    const auto& told = std::get<protocol::Get>(answer->message);
    there.push_back(static_cast<int64_t>(told.step));
    queued.push_back(static_cast<int64_t>(told.acknowledged));
    own.push_back(there.back() - queued.back());
  }
  const transport::CarrierStats stats = side.carrier().stats();
  out = {at_us(there, 0.5),
         at_us(there, 0.99),
         at_us(own, 0.5),
         at_us(own, 0.99),
         at_us(queued, 0.99),
         at_us(round, 0.5),
         at_us(round, 0.99),
         stats.inline_bytes,
         (stats.bytes_sent - sent_before) / std::max(1u, rounds - 1)};
  return out;
}

}  // namespace

Result<HandoverFigures> measure_handover(const std::string& directory, uint64_t size_bytes,
                                         uint32_t rounds) {
  if (size_bytes < 64 || size_bytes > UINT32_MAX || rounds < 2) {
    return invalid_argument("a hand-over has 64 bytes to 4 GB, and two rounds at least");
  }
  const pid_t taker = fork();  // no thread has been started
  if (taker < 0) return Status(Code::kResource, "fork failed");
  if (taker == 0) _exit(take_all(directory));
  Result<HandoverFigures> out = make_all(directory, size_bytes, rounds);
  waitpid(taker, nullptr, 0);
  return out;
}

}  // namespace overlord::bench
