#include "overlord/node/run_journal.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "overlord/protocol/journal/record_chain.h"
#include "overlord/runtime/in_memory/memory_journal.h"
#include "overlord/storage/file_journal.h"

namespace overlord::node {
namespace {

constexpr size_t kRecordsKept = 64;  // of a journal in memory: for a look at the last plans
constexpr size_t kRunsKept = 3;      // of earlier runs of one name, for people
constexpr std::string_view kBefore = "before-";

Result<std::vector<protocol::JournalRecord>> decode(const std::vector<std::string>& records) {
  std::vector<protocol::JournalRecord> out;
  protocol::JournalReader reader;
  for (const std::string& bytes : records) {
    OVERLORD_TRY(protocol::JournalRecord record, reader.read(bytes));
    out.push_back(std::move(record));
  }
  return out;
}

Result<std::shared_ptr<planner::JournalFold>> fold(const std::vector<std::string>& records) {
  auto out = std::make_shared<planner::JournalFold>();
  OVERLORD_TRY(const std::vector<protocol::JournalRecord> decoded, decode(records));
  for (const protocol::JournalRecord& record : decoded) {
    OVERLORD_RETURN_IF_ERROR(out->apply(record));
  }
  return out;
}

std::vector<uint32_t> numbers_before(const std::filesystem::path& folder) {
  std::vector<uint32_t> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kBefore)) continue;
    out.push_back(static_cast<uint32_t>(std::atoi(name.c_str() + kBefore.size())));
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Segments of earlier terms than `term`, which tell of another run. They stay where they are as
// well until this run is durable: a folder must tell something at any time. Best effort, for
// people.
void keep_aside(const std::filesystem::path& folder, uint32_t term) {
  const Result<std::vector<storage::SegmentName>> segments = storage::list_segments(folder);
  if (!segments.ok()) return;
  std::vector<uint32_t> before = numbers_before(folder);
  const auto at = [&](uint32_t number) {
    return folder / (std::string(kBefore) + std::to_string(number));
  };
  before.push_back(before.empty() ? 1 : before.back() + 1);
  std::error_code error;
  std::filesystem::create_directory(at(before.back()), folder, error);
  for (const storage::SegmentName& segment : *segments) {
    if (segment.term >= term) continue;
    std::filesystem::create_hard_link(folder / segment.text(), at(before.back()) / segment.text(),
                                      error);
  }
  for (; before.size() > kRunsKept; before.erase(before.begin())) {
    std::filesystem::remove_all(at(before.front()), error);
  }
}

// Of the same run: its job must be the same too.
Status check_job(const std::string& folder, const protocol::JournalStart& wrote,
                 const host::OpenJob& job) {
  if (wrote.config == job.config && wrote.manifest == job.manifest.digest) return {};
  const bool config = wrote.config != job.config;
  return {Code::kStateMismatch,
          std::string("the journal ") + folder + " of this run is of another " +
              (config ? "config: " + wrote.config.hex() + ", now " + job.config.hex()
                      : "manifest: " + wrote.manifest.hex() + ", now " + job.manifest.digest.hex() +
                            "; files have changed while the run went") +
              ": restart from the last checkpoint"};
}

}  // namespace

std::string journal_folder_of(const std::string& below, const Digest& config,
                              const std::string& planner) {
  return below + "/" + config.hex() + "-" + planner;
}

Result<std::unique_ptr<runtime::Journal>> open_run_journal(const std::string& folder, bool begun,
                                                           host::HostStart* start) {
  if (folder.empty()) {
    return std::unique_ptr<runtime::Journal>(
        std::make_unique<runtime::MemoryJournal>(kRecordsKept));
  }
  const std::string parent = std::filesystem::path(folder).parent_path().string();
  OVERLORD_RETURN_IF_ERROR(storage::prepare_journal_folder(parent));
  OVERLORD_TRY(storage::OpenedJournal opened, storage::FileJournal::open(folder));
  start->generations[protocol::planner_address()] = opened.term;
  if (begun && opened.term == 1) {
    return Status(Code::kUnavailable,
                  "the journal of this run is gone, it was in " + folder +
                      ": what has been planned is not known: restart from the last checkpoint");
  }
  OVERLORD_TRY(auto folded, fold(opened.contents.records));
  const bool same = folded->started() && !start->run.empty() && folded->start().run == start->run &&
                    folded->start().versions.attempt == start->attempt;
  if (same) {
    OVERLORD_RETURN_IF_ERROR(check_job(folder, folded->start(), *start->job));
    start->folded = std::move(folded);
  } else if (folded->started()) {
    keep_aside(folder, opened.term);
  }
  return std::unique_ptr<runtime::Journal>(std::move(opened.journal));
}

Result<std::vector<protocol::JournalRecord>> read_records(const std::string& folder) {
  OVERLORD_TRY(const storage::JournalFolder journal, storage::read_journal(folder));
  return decode(journal.contents.records);
}

}  // namespace overlord::node
