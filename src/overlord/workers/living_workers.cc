#include "overlord/workers/living_workers.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <string>
#include <string_view>

namespace overlord::workers {

uint64_t resident_bytes(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/statm";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[128];
  const ssize_t size = read(file, text, sizeof(text));
  close(file);
  if (size <= 0) return 0;
  const std::string_view fields(text, static_cast<size_t>(size));
  const size_t gap = fields.find(' ');
  if (gap == std::string_view::npos) return 0;
  uint64_t pages = 0;
  std::from_chars(fields.data() + gap + 1, fields.data() + fields.size(), pages);
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

void LivingWorkers::add(pid_t pid) {
  const std::lock_guard lock(mutex_);
  pids_.insert(pid);
}

void LivingWorkers::remove(pid_t pid) {
  const std::lock_guard lock(mutex_);
  pids_.erase(pid);
}

uint64_t LivingWorkers::resident_bytes() const {
  const std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const pid_t pid : pids_) bytes += workers::resident_bytes(pid);
  return bytes;
}

}  // namespace overlord::workers
