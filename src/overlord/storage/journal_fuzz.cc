// Entry for a fuzzer: the bytes are the file of a journal. What is read back must be frames that
// begin at the first byte and end where it says; a second reading of them gives the same.
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

// Where the journals of this process lie: in memory, where the machine has such a folder.
std::string folder() {
  const char* const shared = "/dev/shm";
  const std::string root = access(shared, W_OK) == 0 ? shared : "/tmp";
  return root + "/overlord-journal-fuzz-" + std::to_string(getpid());
}

Result<JournalContents> read_as_journal(std::string_view bytes) {
  static const std::string path = folder() + ".journal";
  FILE* const file = std::fopen(path.c_str(), "wb");
  OVERLORD_CHECK(file != nullptr, "no room for a journal");
  const size_t wrote = bytes.empty() ? 0 : std::fwrite(bytes.data(), 1, bytes.size(), file);
  OVERLORD_CHECK(wrote == bytes.size(), "a short write");
  std::fclose(file);
  auto contents = read_journal(path);
  unlink(path.c_str());
  return contents;
}

void takes_journal(std::string_view bytes) {
  const auto contents = read_as_journal(bytes);
  if (!contents.ok()) {
    OVERLORD_CHECK(!contents.status().message().empty(), "a refusal without a reason");
    return;
  }
  OVERLORD_CHECK(contents->valid_bytes + contents->cut_bytes == bytes.size(), "bytes are lost");
  const auto again = read_as_journal(bytes.substr(0, contents->valid_bytes));
  OVERLORD_CHECK(again.ok() && again->records == contents->records && again->cut_bytes == 0,
                 "a journal without its torn tail reads otherwise");
}

std::vector<std::string> good_journals() {
  const std::string path = folder() + "/journal";
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
  rmdir(folder().c_str());
  const auto read = read_as_journal(bytes);
  OVERLORD_CHECK(read.ok() && read->records.size() == 4, "a good journal is read");
  return {bytes, bytes.substr(0, bytes.size() - 5), ""};
}

}  // namespace
}  // namespace overlord::storage

std::vector<std::string> fuzz_seeds() { return overlord::storage::good_journals(); }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  overlord::storage::takes_journal({reinterpret_cast<const char*>(data), size});
  return 0;
}
