#include "overlord/node/recovery/living_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace overlord::node {
namespace {

// Of a `stat` file, counted from behind the name.
constexpr size_t kState = 0, kUserTicks = 11, kSystemTicks = 12, kStart = 19, kFields = 20;

// None: there is no such process or thread.
std::vector<std::string> fields_of(const std::filesystem::path& directory) {
  std::ifstream file(directory / "stat");
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const size_t name_ends = text.rfind(')');  // the name itself may hold anything
  if (name_ends == std::string::npos) return {};
  std::istringstream rest(text.substr(name_ends + 1));
  std::vector<std::string> fields(kFields);
  for (std::string& field : fields) rest >> field;
  return fields;
}

std::filesystem::path directory_of(int64_t pid) { return "/proc/" + std::to_string(pid); }

std::vector<std::filesystem::path> threads_of(int64_t pid) {
  std::vector<std::filesystem::path> threads;
  std::error_code gone;  // it may end at any moment
  std::filesystem::directory_iterator at(directory_of(pid) / "task", gone);
  for (; !gone && at != std::filesystem::directory_iterator(); at.increment(gone)) {
    threads.push_back(at->path());
  }
  return threads;
}

uint64_t number(const std::string& text) { return std::strtoull(text.c_str(), nullptr, 10); }

// 0: there is no such process, or it is dead and not buried.
uint64_t start_of(int64_t pid) {
  const std::vector<std::string> fields = fields_of(directory_of(pid));
  if (fields.empty() || fields[kState] == "Z" || fields[kState] == "X") return 0;
  return number(fields[kStart]);
}

}  // namespace

bool wants_to_run(int64_t pid) {
  for (const std::filesystem::path& thread : threads_of(pid)) {
    const std::vector<std::string> fields = fields_of(thread);
    if (!fields.empty() && fields[kState] == "R") return true;
  }
  return false;
}

int64_t cpu_ns_of(int64_t pid) {
  const std::vector<std::string> fields = fields_of(directory_of(pid));
  if (fields.empty()) return 0;
  const uint64_t ticks = number(fields[kUserTicks]) + number(fields[kSystemTicks]);
  return static_cast<int64_t>(ticks) * (1'000'000'000 / sysconf(_SC_CLK_TCK));
}

int64_t cpu_ns_with_children() {
  int64_t sum = cpu_ns_of(getpid());
  for (const std::filesystem::path& thread : threads_of(getpid())) {
    std::ifstream children(thread / "children");
    for (int64_t child = 0; children >> child;) sum += cpu_ns_of(child);
  }
  return sum;
}

uint64_t held_bytes_with_children(int64_t pid) {
  uint64_t sum = 0;
  std::ifstream status(directory_of(pid) / "status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("RssAnon:") && !line.starts_with("RssShmem:")) continue;
    sum += number(line.substr(line.find(':') + 1)) * 1024;
  }
  for (const std::filesystem::path& thread : threads_of(pid)) {
    std::ifstream children(thread / "children");
    for (int64_t child = 0; children >> child;) sum += held_bytes_with_children(child);
  }
  return sum;
}

LivingProcess process_with(int64_t pid) { return {pid, start_of(pid)}; }

LivingProcess own_process() { return process_with(getpid()); }

runtime::Descriptor handle_of(const LivingProcess& process) {
  if (process.pid <= 1 || process.started == 0) return runtime::Descriptor();
  runtime::Descriptor handle(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)));
  // Opened first: a process that has this start now is the one that the handle is of.
  if (!handle.valid() || start_of(process.pid) != process.started) return runtime::Descriptor();
  return handle;
}

bool kill_process(const runtime::Descriptor& handle) {
  return handle.valid() && syscall(SYS_pidfd_send_signal, handle.get(), SIGKILL, nullptr, 0) == 0;
}

void wait_for_end(const runtime::Descriptor& handle) {
  if (!handle.valid()) return;
  pollfd polled{handle.get(), POLLIN, 0};
  while (poll(&polled, 1, -1) < 0 && errno == EINTR) {
  }
}

}  // namespace overlord::node
