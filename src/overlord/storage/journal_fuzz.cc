// Entry for a fuzzer: the bytes are the file of a journal. What is read back must be frames that
// begin at the first byte and end where it says; a second reading of them gives the same.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/check.h"
#include "overlord/storage/file_journal.h"

namespace overlord::storage {
namespace {

// A file in memory that has a path while it is open.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : file_(memfd_create("journal", 0)) {
    OVERLORD_CHECK(file_ >= 0, "no file in memory");
    OVERLORD_CHECK(write(file_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
                   "a short write");
  }
  ~MemoryFile() { close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

void takes_journal(std::string_view bytes) {
  const auto contents = read_journal(MemoryFile(bytes).path());
  if (!contents.ok()) {
    OVERLORD_CHECK(!contents.status().message().empty(), "a refusal without a reason");
    return;
  }
  OVERLORD_CHECK(contents->valid_bytes + contents->cut_bytes == bytes.size(), "bytes are lost");
  const auto again = read_journal(MemoryFile(bytes.substr(0, contents->valid_bytes)).path());
  OVERLORD_CHECK(again.ok() && again->records == contents->records && again->cut_bytes == 0,
                 "a journal without its torn tail reads otherwise");
}

std::vector<std::string> good_journals() {
  const std::string folder = "/tmp/overlord-journal-fuzz-" + std::to_string(getpid());
  const std::string path = folder + "/journal";
  std::string bytes;
  JournalContents contents;
  {
    const auto journal = FileJournal::open(path, &contents);
    OVERLORD_CHECK(journal.ok(), "a journal can be made");
    for (const size_t size : {0, 1, 30, 700}) {
      (*journal)->append(std::string(size, 'r'), [](const Status&) {});
    }
  }
  if (FILE* const file = std::fopen(path.c_str(), "rb"); file != nullptr) {
    char buffer[4096];
    bytes.assign(buffer, std::fread(buffer, 1, sizeof buffer, file));
    std::fclose(file);
  }
  unlink(path.c_str());
  rmdir(folder.c_str());
  return {bytes, bytes.substr(0, bytes.size() - 5), ""};
}

}  // namespace
}  // namespace overlord::storage

std::vector<std::string> fuzz_seeds() { return overlord::storage::good_journals(); }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  overlord::storage::takes_journal({reinterpret_cast<const char*>(data), size});
  return 0;
}
