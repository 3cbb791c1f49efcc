// Entry for a fuzzer: the bytes are the first segment of a journal. What is read back must be
// frames that begin at the first byte and end where it says; a second reading of them gives the
// same.
#include <sys/stat.h>
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

std::string segment() { return folder() + "/" + SegmentName{1, 1}.text(); }

void forget_journal() {
  unlink(segment().c_str());
  rmdir(folder().c_str());
}

Result<JournalContents> read_as_journal(std::string_view bytes) {
  mkdir(folder().c_str(), 0700);
  FILE* const file = std::fopen(segment().c_str(), "wb");
  OVERLORD_CHECK(file != nullptr, "no room for a journal");
  const size_t wrote = bytes.empty() ? 0 : std::fwrite(bytes.data(), 1, bytes.size(), file);
  OVERLORD_CHECK(wrote == bytes.size(), "a short write");
  std::fclose(file);
  auto read = read_journal(folder());
  forget_journal();
  if (!read.ok()) return read.status();
  return std::move(read->contents);
}

void takes_journal(std::string_view bytes) {
  const auto contents = read_as_journal(bytes);
  if (!contents.ok()) {
    OVERLORD_CHECK(!contents.status().message().empty(), "a refusal without a reason");
    return;
  }
  OVERLORD_CHECK(contents->valid_bytes + contents->cut_bytes == bytes.size(), "bytes are lost");
  OVERLORD_CHECK(contents->segment || contents->records.empty(), "records without a base");
  const auto again = read_as_journal(bytes.substr(0, contents->valid_bytes));
  OVERLORD_CHECK(again.ok() && again->records == contents->records && again->cut_bytes == 0,
                 "a journal without its torn tail reads otherwise");
}

std::vector<std::string> good_journals() {
  std::string bytes;
  {
    const auto opened = FileJournal::open(folder());
    OVERLORD_CHECK(opened.ok(), "a journal can be made");
    opened->journal->compact({"base", std::string(40, 'b')}, [](const Status&) {});
    for (const size_t size : {0, 1, 30, 700}) {
      opened->journal->append(std::string(size, 'r'), [](const Status&) {});
    }
  }
  if (FILE* const file = std::fopen(segment().c_str(), "rb"); file != nullptr) {
    char buffer[4096];
    bytes.assign(buffer, std::fread(buffer, 1, sizeof buffer, file));
    std::fclose(file);
  }
  forget_journal();
  const auto read = read_as_journal(bytes);
  OVERLORD_CHECK(read.ok() && read->records.size() == 6, "a good journal is read");
  return {bytes, bytes.substr(0, bytes.size() - 5), ""};
}

}  // namespace
}  // namespace overlord::storage

std::vector<std::string> fuzz_seeds() { return overlord::storage::good_journals(); }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  overlord::storage::takes_journal({reinterpret_cast<const char*>(data), size});
  return 0;
}
