// FileJournal: the Journal in a file. Frame: [u32 length][u32 magic and version][u32 crc][body],
// little-endian, crc32c over length, magic and body. 0600 in a 0700 directory, one writer (flock).
// A thread of its own writes and fdatasyncs; records appended while a sync runs share the next one.
// A failed write or sync is final: the kernel may have dropped the pages, so trying again would
// lie.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/runtime/seams.h"

namespace overlord::storage {

struct JournalContents {
  std::vector<std::string> records;
  uint64_t valid_bytes = 0;  // the records end here
  uint64_t cut_bytes = 0;    // torn tail after them: an append that was never called durable
};

// Reads without locking or changing the file. A torn tail is left out and counted; a damaged frame
// with a good one behind it is no tail: kBadData with the offset. A missing file is kNotFound.
Result<JournalContents> read_journal(const std::string& path);

class FileJournal final : public runtime::Journal {
 public:
  // Makes or continues the journal at `path`: takes the lock (kUnavailable when another writer has
  // it), reads what is there into `contents` and cuts the torn tail off the file.
  static Result<std::unique_ptr<FileJournal>> open(const std::string& path,
                                                   JournalContents* contents);
  // Writes and syncs what was appended, then closes.
  ~FileJournal() override;

  // `durable` is called from the journal's thread, in order of the appends.
  void append(std::string record, std::function<void(Status)> durable) override;

  uint64_t syncs() const;

 private:
  struct Pending {
    std::string record;
    std::function<void(Status)> durable;
  };

  FileJournal(std::string path, int fd, uint64_t size_bytes);
  void work();
  Status commit(const std::vector<Pending>& batch);

  const std::string path_;
  const int fd_;
  uint64_t size_bytes_;  // touched by the journal's thread only
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Pending> waiting_ OVERLORD_GUARDED_BY(mutex_);
  bool stopping_ OVERLORD_GUARDED_BY(mutex_) = false;
  uint64_t syncs_ OVERLORD_GUARDED_BY(mutex_) = 0;
  Status failed_ OVERLORD_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace overlord::storage
