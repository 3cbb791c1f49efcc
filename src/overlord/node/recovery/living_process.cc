#include "overlord/node/recovery/living_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace overlord::node {
namespace {

constexpr int kStartField = 20;  // of /proc/PID/stat, behind the name: the 22nd of all

// 0: there is no such process, or it is dead and not buried.
uint64_t start_of(int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const size_t name_ends = text.rfind(')');  // the name itself may hold anything
  if (name_ends == std::string::npos) return 0;
  std::istringstream rest(text.substr(name_ends + 1));
  std::string word;
  for (int field = 1; field <= kStartField && rest >> word; ++field) {
    if (field == 1 && (word == "Z" || word == "X")) return 0;
  }
  return std::strtoull(word.c_str(), nullptr, 10);
}

}  // namespace

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
