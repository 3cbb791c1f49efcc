// FileJournal: the journal of a run's planner in a folder of segments (journal_folder.h). A thread
// of its own writes and fdatasyncs; records appended while a sync runs share the next one.
// compact() begins a segment.
//
// Terms fence, not locks: a lock says nothing about a process that was stopped and goes on later.
// Whoever opens the folder claims the next term by making its first segment, and reads after that.
// Whoever writes syncs, and looks for a later term after that, before it calls anything durable. So
// a writer that sees no later term had synced before the claim, and the claimer reads it; one that
// sees it has lost the folder, and all it is asked from then on fails with kUnavailable.
//
// A full disk is waited for. Every other failed write or sync is final: the kernel may have dropped
// the pages, so trying again would lie.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/runtime/seams.h"
#include "overlord/storage/file_operations.h"
#include "overlord/storage/journal_counts.h"
#include "overlord/storage/journal_folder.h"
#include "overlord/storage/segment_writer.h"

namespace overlord::storage {

struct OpenedJournal;

class FileJournal final : public runtime::Journal {
 public:
  // Makes the folder where there is none, claims its next term, and reads what the terms before it
  // called durable. Nothing is written yet: the first call must be compact(), with records that
  // tell what was read. `operations` outlive the journal; null: the real ones.
  static Result<OpenedJournal> open(const std::string& folder,
                                    FileOperations* operations = nullptr);
  // Writes and syncs what was appended, then closes. While it waits for space: kCancelled.
  ~FileJournal() override;

  // `durable` is called from the journal's thread, in order of the calls. kUnavailable: a later
  // term was claimed; whether that one has read this record is not known.
  void append(std::string record, std::function<void(Status)> durable) override;
  // Segments before this one are removed when it is durable.
  void compact(std::vector<std::string> records, std::function<void(Status)> durable) override;

  // A step of the fastest trainers takes a few milliseconds, a slow sync of a busy disk fifty.
  uint32_t most_plans_ahead() const override { return 32; }

  uint32_t term() const { return term_; }
  JournalCounts<Plain> counts() const { return read_counts(counts_); }

 private:
  struct Pending {
    bool base = false;
    std::vector<std::string> records;
    std::function<void(Status)> durable;
  };

  FileJournal(std::string folder, std::unique_ptr<SegmentWriter> segment,
              FileOperations* operations);
  void enqueue(Pending pending);
  void work();
  std::vector<Pending> take_batch() OVERLORD_REQUIRES(mutex_);
  Status commit(const std::vector<Pending>& batch);
  Status begin_segment();
  Status with_space(const std::function<FileError()>& attempt);
  bool wait_for_space();
  Result<std::vector<SegmentName>> look() const;
  Status check_term(const std::vector<SegmentName>& segments) const;
  void remove_older(const std::vector<SegmentName>& segments);

  const std::string folder_;
  const uint32_t term_;
  FileOperations* const operations_;
  std::unique_ptr<SegmentWriter> segment_;  // touched by the journal's thread only
  JournalCounts<std::atomic> counts_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Pending> waiting_ OVERLORD_GUARDED_BY(mutex_);
  bool begun_ OVERLORD_GUARDED_BY(mutex_) = false;  // compact() was called
  bool stopping_ OVERLORD_GUARDED_BY(mutex_) = false;
  Status failed_ OVERLORD_GUARDED_BY(mutex_);
  std::thread thread_;
};

struct OpenedJournal {
  std::unique_ptr<FileJournal> journal;
  JournalContents contents;
  uint32_t term = 0;  // claimed by this opening
};

}  // namespace overlord::storage
