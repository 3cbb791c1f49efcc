#include "overlord/node/journal_file.h"

#include "overlord/runtime/in_memory/memory_journal.h"
#include "overlord/storage/file_journal.h"

namespace overlord::node {
namespace {

constexpr size_t kRecordsKept = 64;  // of a journal in memory: for a look at the last plans

}  // namespace

Result<std::unique_ptr<runtime::Journal>> open_journal(const std::string& folder,
                                                       const host::HostStart& start) {
  if (folder.empty()) {
    return std::unique_ptr<runtime::Journal>(
        std::make_unique<runtime::MemoryJournal>(kRecordsKept));
  }
  const std::string path = folder + "/" + start.job->config.hex() + "-rank-" +
                           std::to_string(start.ranks.front()) + "-attempt-" +
                           std::to_string(start.attempt) + ".journal";
  storage::JournalContents before;  // what comes again under this name goes on in the same file
  OVERLORD_TRY(auto journal, storage::FileJournal::open(path, &before));
  return std::unique_ptr<runtime::Journal>(std::move(journal));
}

Result<std::vector<protocol::JournalRecord>> read_records(const std::string& path) {
  OVERLORD_TRY(const storage::JournalContents contents, storage::read_journal(path));
  std::vector<protocol::JournalRecord> records;
  for (const std::string& bytes : contents.records) {
    OVERLORD_TRY(protocol::JournalRecord record, protocol::decode_record(bytes));
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace overlord::node
