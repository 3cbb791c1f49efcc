#include "overlord/node/status/trace_switch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <memory>

#include "overlord/runtime/trace.h"

namespace overlord::node {
namespace {

constexpr time_t kForgottenSeconds = 15;

// A line of fields between tabs.
std::string line_of(const runtime::TraceEvent& event) {
  std::string whose = event.whose;
  for (char& letter : whose) {
    if (static_cast<unsigned char>(letter) < ' ') letter = ' ';
  }
  return std::to_string(event.begin_ns) + '\t' + std::to_string(event.duration_ns) + '\t' +
         std::to_string(event.step) + '\t' + std::to_string(event.thread) + '\t' +
         std::string(event.what) + '\t' + whose + '\n';
}

}  // namespace

void TraceSwitch::poll() {
  runtime::TraceBook& book = runtime::TraceBook::of_process();
  const bool wants = wanted();
  if (wants && !book.on()) book.start();
  if (!wants && book.on()) write_kept();
}

bool TraceSwitch::wanted() const {
  struct stat info = {};
  if (stat((directory_ + "/trace-wanted").c_str(), &info) != 0) return false;
  return std::time(nullptr) - info.st_mtime < kForgottenSeconds;
}

void TraceSwitch::write_kept() const {
  const auto kept = runtime::TraceBook::of_process().stop();
  const std::string path = directory_ + "/trace-of-" + name_;
  const std::string unfinished = path + "~";
  const int descriptor =
      open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return;  // a picture less: nothing else hangs on it
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(fdopen(descriptor, "w"), std::fclose);
  for (const runtime::TraceEvent& event : kept) std::fputs(line_of(event).c_str(), file.get());
  std::fflush(file.get());
  std::rename(unfinished.c_str(), path.c_str());
}

}  // namespace overlord::node
