#include "overlord/node/keeper/life_line.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "overlord/protocol/control.h"

namespace overlord::node {
namespace {

// A message is its size in eight bytes, a kind, and the rest.
constexpr char kJob = 'J';
constexpr char kFailure = 'F';  // a Refused
constexpr uint64_t kMostBytes = uint64_t{1} << 40;

Status told_to_end() {
  return {Code::kUnavailable,
          "the node of this host was told to end (SIGTERM): restart from the last checkpoint"};
}

Status no_job_came() {
  return {Code::kUnavailable,
          "the process that was to open the sources for this host has ended: see its log"};
}

Status owner_gone() {
  return {Code::kUnavailable,
          "the process that ran the node of this host (overlord serve) has ended: restart from the "
          "last checkpoint"};
}

}  // namespace

Result<std::unique_ptr<LifeLine>> LifeLine::make() {
  sigset_t asked;
  sigemptyset(&asked);
  sigaddset(&asked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &asked, nullptr);
  runtime::Descriptor signals(signalfd(-1, &asked, SFD_CLOEXEC | SFD_NONBLOCK));
  runtime::Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!signals.valid() || !wake.valid()) {
    return Status(Code::kResource, "cannot watch for signals: " + std::string(strerror(errno)));
  }
  return std::unique_ptr<LifeLine>(new LifeLine(std::move(signals), std::move(wake)));
}

LifeLine::~LifeLine() { unwatch(); }

void LifeLine::unwatch() {
  if (!watcher_.joinable()) return;
  uint64_t count = 1;
  [[maybe_unused]] ssize_t done = write(wake_.get(), &count, sizeof(count));
  watcher_.join();
  done = read(wake_.get(), &count, sizeof(count));
}

Result<std::string> LifeLine::read_exactly(size_t size_bytes) {
  std::string bytes(size_bytes, '\0');
  size_t have = 0;
  while (have < size_bytes) {
    pollfd polled[] = {{STDIN_FILENO, POLLIN, 0}, {signals_.get(), POLLIN, 0}};
    if (poll(polled, 2, -1) < 0) continue;  // EINTR
    if (polled[1].revents != 0) return Status(Code::kCancelled, told_to_end().message());
    const ssize_t got = read(STDIN_FILENO, bytes.data() + have, size_bytes - have);
    if (got == 0 || (got < 0 && errno != EINTR)) return no_job_came();
    if (got > 0) have += static_cast<size_t>(got);
  }
  return bytes;
}

Result<std::string> LifeLine::job() {
  OVERLORD_TRY(const std::string head, read_exactly(sizeof(uint64_t)));
  uint64_t size_bytes = 0;
  std::memcpy(&size_bytes, head.data(), sizeof(size_bytes));
  if (size_bytes == 0 || size_bytes > kMostBytes) return bad_data("no job on standard input");
  OVERLORD_TRY(std::string body, read_exactly(size_bytes));
  const char kind = body.front();
  body.erase(0, 1);
  if (kind == kJob) return body;
  if (kind != kFailure) return bad_data("no job on standard input");
  OVERLORD_TRY(const protocol::Control failure, protocol::decode_control(body));
  const auto* refused = std::get_if<protocol::Refused>(&failure);
  if (refused == nullptr || refused->status.ok()) return bad_data("no job on standard input");
  return refused->status;
}

Status LifeLine::watch(Starter starter, std::function<void(const Status&)> ended) {
  const auto wait = [this, starter, ended = std::move(ended)] {
    for (;;) {
      pollfd polled[] = {{wake_.get(), POLLIN, 0},
                         {signals_.get(), POLLIN, 0},
                         {starter == Starter::kLeaves ? -1 : STDIN_FILENO, POLLIN, 0}};
      if (poll(polled, 3, -1) < 0) continue;  // EINTR
      if (polled[0].revents != 0) return;
      if (polled[1].revents != 0) return ended(told_to_end());
      if (polled[2].revents == 0) continue;
      if (starter == Starter::kComesAgain) _exit(1);  // a death, not an end: nothing is told
      return ended(owner_gone());
    }
  };
  try {
    watcher_ = std::thread(wait);
  } catch (const std::system_error& error) {
    return {Code::kResource, std::string("cannot watch for signals: ") + error.what()};
  }
  return {};
}

}  // namespace overlord::node
