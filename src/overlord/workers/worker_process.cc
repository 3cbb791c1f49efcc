#include "overlord/workers/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/runtime/steady_clock.h"
#include "overlord/workers/spawn_settings.h"
#include "overlord/workers/worker_rules.h"

namespace overlord::workers {
namespace {

using runtime::steady_now_ns;

constexpr size_t kTailBytes = 4096;
constexpr size_t kTailLines = 20;
constexpr int kFirstOwnDescriptor = 3;

std::string error_text(int error) { return std::generic_category().message(error); }

Status system_failure(const char* what, int error) {
  return {Code::kResource, std::string(what) + ": " + error_text(error)};
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

int connect(SpawnSettings* settings, int socket, int errors) {
  posix_spawn_file_actions_t* actions = &settings->actions;
  int error = posix_spawn_file_actions_adddup2(actions, socket, STDIN_FILENO);
  if (error == 0) error = posix_spawn_file_actions_adddup2(actions, socket, STDOUT_FILENO);
  if (error == 0) error = posix_spawn_file_actions_adddup2(actions, errors, STDERR_FILENO);
  if (error == 0) error = settings->close_from(kFirstOwnDescriptor);
  return error;
}

std::string describe_exit(int status) {
  if (WIFEXITED(status)) return "exit status " + std::to_string(WEXITSTATUS(status));
  if (!WIFSIGNALED(status)) return "unknown";
  const int number = WTERMSIG(status);
  const char* hint = number == SIGKILL ? " (killed from outside, often for memory)" : "";
  return "signal " + std::to_string(number) + hint;
}

}  // namespace

std::vector<std::string> environment_with(const std::vector<std::string>& changes) {
  const auto name_of = [](std::string_view entry) { return entry.substr(0, entry.find('=')); };
  std::vector<std::string> all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const bool changed = std::any_of(changes.begin(), changes.end(), [&](const auto& change) {
      return name_of(change) == name_of(*entry);
    });
    if (!changed) all.emplace_back(*entry);
  }
  all.insert(all.end(), changes.begin(), changes.end());
  return all;
}

struct WorkerProcess::Ends {
  runtime::Descriptor our_socket, its_socket, our_errors, its_errors;
};

WorkerProcess::WorkerProcess(pid_t pid, runtime::Descriptor socket, runtime::Descriptor errors,
                             int stop_descriptor, LivingWorkers& living)
    : pid_(pid),
      socket_(std::move(socket)),
      errors_(std::move(errors)),
      stop_descriptor_(stop_descriptor),
      living_(living) {
  living_.add(pid_);
}

// A host that runs with stdin or stderr closed would get our descriptors there, where the
// duplications of the spawn overwrite one another.
Status WorkerProcess::above_stdio(runtime::Descriptor* descriptor) {
  if (descriptor->get() >= kFirstOwnDescriptor) return {};
  const int moved = fcntl(descriptor->get(), F_DUPFD_CLOEXEC, kFirstOwnDescriptor);
  if (moved < 0) return system_failure("cannot duplicate a descriptor", errno);
  *descriptor = runtime::Descriptor(moved);
  return {};
}

Result<WorkerProcess::Ends> WorkerProcess::make_ends() {
  Ends ends;
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return system_failure("cannot make a socket pair", errno);
  }
  ends.our_socket = runtime::Descriptor(sockets[0]);
  ends.its_socket = runtime::Descriptor(sockets[1]);
  int errors[2];
  if (pipe2(errors, O_CLOEXEC) != 0) return system_failure("cannot make a pipe", errno);
  ends.our_errors = runtime::Descriptor(errors[0]);
  ends.its_errors = runtime::Descriptor(errors[1]);
  // Ours alone: the other end is another open file, and the worker expects it to block.
  if (fcntl(ends.our_errors.get(), F_SETFL, O_NONBLOCK) != 0) {
    return system_failure("cannot make a pipe non-blocking", errno);
  }
  OVERLORD_RETURN_IF_ERROR(above_stdio(&ends.its_socket));
  OVERLORD_RETURN_IF_ERROR(above_stdio(&ends.its_errors));
  return ends;
}

Result<pid_t> WorkerProcess::spawn(const WorkerCommand& command, const Ends& ends) {
  SpawnSettings settings;
  int error = settings.default_signals(/*own_group=*/true);
  if (error == 0) error = connect(&settings, ends.its_socket.get(), ends.its_errors.get());
  std::vector<char*> argv = pointers_to(command.argv);
  std::vector<char*> environment = pointers_to(command.environment);
  pid_t pid = -1;
  if (error == 0) {
    error = posix_spawnp(&pid, argv[0], &settings.actions, &settings.attributes, argv.data(),
                         environment.data());
  }
  if (error != 0) {
    return Status(Code::kUnavailable,
                  "cannot start a process: " + error_text(error) + ": " + command.argv[0]);
  }
  return pid;
}

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::start(const WorkerCommand& command,
                                                            int stop_descriptor,
                                                            LivingWorkers& living) {
  OVERLORD_CHECK(!command.argv.empty(), "a worker process without a command");
  OVERLORD_TRY(Ends ends, make_ends());
  OVERLORD_TRY(const pid_t pid, spawn(command, ends));
  return std::unique_ptr<WorkerProcess>(new WorkerProcess(
      pid, std::move(ends.our_socket), std::move(ends.our_errors), stop_descriptor, living));
}

// Waits for one of `events` on the socket, swallowing stderr meanwhile; gives what is ready.
Result<short> WorkerProcess::wait_for(short events, int64_t deadline_ns) {
  while (true) {
    const int64_t left_ns = deadline_ns - steady_now_ns();
    const int64_t left_ms = std::clamp<int64_t>(left_ns / kMillisecond + 1, 0, 60'000);
    pollfd polled[3] = {
        {socket_.get(), events, 0}, {stop_descriptor_, POLLIN, 0}, {errors_.get(), POLLIN, 0}};
    const int count = poll(polled, 3, left_ns <= 0 ? 0 : static_cast<int>(left_ms));
    if (count < 0 && errno != EINTR) return system_failure("cannot poll a worker", errno);
    if (count > 0) {
      if (polled[1].revents != 0)
        return Status(Code::kCancelled, "stopped while a worker was busy");
      if (polled[2].revents != 0) swallow_errors();
      if (polled[0].revents != 0) return polled[0].revents;
    }
    if (left_ns <= 0) return Status(Code::kDeadline, "made no progress before its deadline");
  }
}

Status WorkerProcess::send(std::span<const std::string_view> pieces, int64_t progress_ns) {
  std::vector<iovec> left;
  for (const std::string_view piece : pieces) {
    if (!piece.empty()) left.push_back({const_cast<char*>(piece.data()), piece.size()});
  }
  size_t first = 0;
  int64_t deadline_ns = steady_now_ns() + progress_ns;
  while (first < left.size()) {
    msghdr message = {};
    message.msg_iov = &left[first];
    message.msg_iovlen = left.size() - first;
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) {
        return {Code::kUnavailable, "does not read its input: " + error_text(errno)};
      }
      OVERLORD_TRY(const short ready, wait_for(POLLOUT | POLLIN, deadline_ns));
      if ((ready & POLLIN) != 0) OVERLORD_RETURN_IF_ERROR(take_early());
      continue;
    }
    deadline_ns = steady_now_ns() + progress_ns;
    size_t done = static_cast<size_t>(sent);
    while (first < left.size() && done >= left[first].iov_len) done -= left[first++].iov_len;
    if (first < left.size()) {
      left[first].iov_base = static_cast<char*>(left[first].iov_base) + done;
      left[first].iov_len -= done;
    }
  }
  return {};
}

// What the socket holds now: 0 bytes when it holds nothing, kUnavailable at its end.
Result<size_t> WorkerProcess::take_available(char* data, size_t size_bytes) {
  const ssize_t taken = recv(socket_.get(), data, size_bytes, MSG_DONTWAIT);
  if (taken > 0) return static_cast<size_t>(taken);
  if (taken == 0) return Status(Code::kUnavailable, "closed its output");
  if (errno == EAGAIN || errno == EINTR) return size_t{0};
  return Status(Code::kUnavailable, "cannot be read: " + error_text(errno));
}

Status WorkerProcess::take_early() {
  if (early_.size() >= kEarlyBytes) {
    return {Code::kUnavailable, "answers without reading what it is asked"};
  }
  char chunk[4096];
  OVERLORD_TRY(const size_t taken,
               take_available(chunk, std::min(sizeof(chunk), kEarlyBytes - early_.size())));
  early_.append(chunk, taken);
  return {};
}

Status WorkerProcess::receive(void* data, size_t size_bytes, int64_t progress_ns) {
  const size_t early = std::min(size_bytes, early_.size());
  char* next = std::copy_n(early_.data(), early, static_cast<char*>(data));
  early_.erase(0, early);
  size_bytes -= early;
  int64_t deadline_ns = steady_now_ns() + progress_ns;
  while (size_bytes > 0) {
    OVERLORD_TRY(const size_t taken, take_available(next, size_bytes));
    if (taken == 0) {
      OVERLORD_TRY([[maybe_unused]] const short ready, wait_for(POLLIN, deadline_ns));
      continue;
    }
    next += taken;
    size_bytes -= taken;
    deadline_ns = steady_now_ns() + progress_ns;
  }
  return {};
}

Status WorkerProcess::wait_readable(int64_t deadline_ns) {
  if (!early_.empty()) return {};
  return wait_for(POLLIN, deadline_ns).status();
}

void WorkerProcess::swallow_errors() {
  constexpr int kReads = 16;  // a worker that only shouts must not keep us here
  char chunk[4096];
  for (int i = 0; i < kReads && errors_.get() >= 0; ++i) {
    const ssize_t taken = read(errors_.get(), chunk, sizeof(chunk));
    if (taken < 0 && errno == EINTR) continue;
    if (taken < 0 && errno == EAGAIN) return;
    if (taken <= 0) return errors_.reset();
    tail_.append(chunk, static_cast<size_t>(taken));
    if (tail_.size() > 2 * kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
  }
}

// Looks every millisecond, and whenever stderr moves: this is the rare path, and it needs no pidfd.
bool WorkerProcess::wait_for_exit(int64_t deadline_ns) {
  while (true) {
    siginfo_t info = {};
    const int answer = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
    if (answer == 0 && info.si_pid == pid_) return true;
    if (answer != 0 && errno != EINTR) return true;  // somebody else has reaped it
    if (steady_now_ns() >= deadline_ns) return false;
    pollfd polled = {errors_.get(), POLLIN, 0};
    if (poll(&polled, 1, 1) > 0) swallow_errors();
  }
}

std::string WorkerProcess::finish(int64_t grace_ns) {
  socket_.reset();
  if (pid_ <= 0) return "gone";
  living_.remove(pid_);
  const bool left_alone = wait_for_exit(steady_now_ns() + grace_ns);
  siginfo_t info = {};
  // Signal the group only while the number is surely ours: a child not yet reaped keeps it.
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0) {
    kill(-pid_, SIGKILL);
  }
  int status = 0;
  pid_t reaped = -1;
  do {
    reaped = waitpid(pid_, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  swallow_errors();
  errors_.reset();
  const bool known = reaped == std::exchange(pid_, -1);
  if (!known) return "unknown, it was reaped by the host program";
  killed_by_others_ = left_alone && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  return left_alone ? describe_exit(status) : "had to be killed";
}

std::string WorkerProcess::last_words() const {
  std::string_view text = tail_;
  if (text.size() > kTailBytes) text.remove_prefix(text.size() - kTailBytes);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  size_t from = text.size();
  for (size_t lines = 0; lines < kTailLines && from != std::string_view::npos && from > 0;
       ++lines) {
    from = text.rfind('\n', from - 1);
  }
  return std::string(from == std::string_view::npos || from == 0 ? text : text.substr(from + 1));
}

}  // namespace overlord::workers
