#include "overlord/storage/file_journal.h"

#include <pthread.h>

#include <chrono>
#include <iterator>
#include <limits>
#include <utility>

#include "overlord/runtime/quote.h"
#include "overlord/storage/journal_frames.h"

namespace overlord::storage {
namespace {

using runtime::quote;

constexpr std::chrono::milliseconds kSpacePause{200};
constexpr size_t kBatchBytes = 16 << 20;  // records that share a sync; one record may have more

// Of a claim that nobody has heard of. The first of all stays: while no base is durable, it alone
// says that nothing was lost, and others may have claimed behind it.
void give_way(const SegmentWriter& segment, FileOperations* operations) {
  if (segment.name() != kFirstSegment) operations->remove(segment.path());
}

// Makes the first segment of a term that nobody has had. A listing may be old by then: that term
// may have been claimed, and its segments removed by the next one, whose own are there to see.
Result<std::unique_ptr<SegmentWriter>> claim_term(const std::string& folder,
                                                  FileOperations* operations) {
  while (true) {
    OVERLORD_TRY(std::vector<SegmentName> segments, list_segments(folder));
    SegmentName name{segments.empty() ? 0 : segments.back().term, 1};
    if (name.term == std::numeric_limits<uint32_t>::max()) {
      return bad_data("journal " + quote(folder) + " has a segment of the last term that there is");
    }
    ++name.term;
    int fd = -1;
    const int error = operations->create(folder + "/" + name.text(), &fd);
    if (error == EEXIST) continue;
    if (error != 0) return journal_error(folder, {"cannot make a segment", error});
    auto made = std::make_unique<SegmentWriter>(folder, name, fd, operations);
    OVERLORD_TRY(segments, list_segments(folder));
    if (segments.empty() || segments.back().term <= name.term) return made;
    give_way(*made, operations);
  }
}

// A term is a fence for others too, so it must not come a second time after a power failure.
Status settle_claim(const std::string& folder, FileOperations* operations) {
  const int error = operations->sync_folder(folder);
  return error == 0 ? Status() : journal_error(folder, {"cannot sync its folder", error});
}

// The listing before the claim may have missed a term whose segments came and went meanwhile.
bool is_shared_term(const JournalFolder& read, const SegmentName& claimed) {
  for (const SegmentInfo& segment : read.segments) {
    if (segment.name.term == claimed.term && segment.name != claimed) return true;
  }
  return false;
}

}  // namespace

Result<OpenedJournal> FileJournal::open(const std::string& folder, FileOperations* operations) {
  if (operations == nullptr) operations = &FileOperations::real();
  OVERLORD_RETURN_IF_ERROR(prepare_journal_folder(folder, *operations));
  while (true) {
    OVERLORD_TRY(std::unique_ptr<SegmentWriter> segment, claim_term(folder, operations));
    const Status claimed = settle_claim(folder, operations);
    // Claim first, read then: see the header.
    Result<JournalFolder> read = claimed.ok() ? read_journal(folder) : claimed;
    const bool shared = read.ok() && is_shared_term(*read, segment->name());
    if (!read.ok() || shared) {
      give_way(*segment, operations);
      if (!shared) return read.status();
      continue;
    }
    const uint32_t term = segment->name().term;
    std::unique_ptr<FileJournal> journal(new FileJournal(folder, std::move(segment), operations));
    return OpenedJournal{std::move(journal), std::move(read->contents), term};
  }
}

FileJournal::FileJournal(std::string folder, std::unique_ptr<SegmentWriter> segment,
                         FileOperations* operations)
    : folder_(std::move(folder)),
      term_(segment->name().term),
      operations_(operations),
      segment_(std::move(segment)),
      thread_([this] { work(); }) {
  pthread_setname_np(thread_.native_handle(), "ol-journal");
}

FileJournal::~FileJournal() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void FileJournal::append(std::string record, std::function<void(Status)> durable) {
  Pending pending{false, {}, std::move(durable)};
  pending.records.push_back(std::move(record));
  ++counts_.lag_records;
  enqueue(std::move(pending));
}

void FileJournal::compact(std::vector<std::string> records, std::function<void(Status)> durable) {
  enqueue({true, std::move(records), std::move(durable)});
}

void FileJournal::enqueue(Pending pending) {
  {
    std::lock_guard lock(mutex_);
    begun_ = begun_ || pending.base;
    OVERLORD_CHECK(begun_, "append() to a journal before its first compact()");
    waiting_.push_back(std::move(pending));
  }
  wake_.notify_one();
}

void FileJournal::work() {
  std::unique_lock lock(mutex_);
  is_held(mutex_);
  while (true) {
    wake_.wait(lock, [this]() OVERLORD_REQUIRES(mutex_) { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    std::vector<Pending> batch = take_batch();
    Status status = failed_;
    lock.unlock();
    if (status.ok()) status = commit(batch);
    counts_.waits_for_space = false;
    if (status.ok() && !batch.front().base) counts_.lag_records -= batch.size();
    // Failure is known to later appends before any callback can make one.
    lock.lock();
    if (failed_.ok()) failed_ = status;
    lock.unlock();
    for (Pending& pending : batch) pending.durable(status);
    batch.clear();
    lock.lock();
  }
}

// A base alone, or the records up to the next one. Records go behind a base when it is durable: a
// good frame behind a torn base would be damage.
std::vector<FileJournal::Pending> FileJournal::take_batch() {
  std::vector<Pending> batch;
  size_t size_bytes = 0;
  do {
    if (!waiting_.front().base) size_bytes += waiting_.front().records.front().size();
    batch.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  } while (!batch.back().base && size_bytes < kBatchBytes && !waiting_.empty() &&
           !waiting_.front().base);
  return batch;
}

Status FileJournal::commit(const std::vector<Pending>& batch) {
  const bool base = batch.front().base;
  FrameWriter writer(base ? FrameKind::kBase : FrameKind::kRecords);
  for (const Pending& pending : batch) {
    for (const std::string& record : pending.records) writer.add(record);
  }
  if (writer.body_bytes() > kMaxFrameBytes) {
    return invalid_argument("journal " + quote(folder_) + ": records of " +
                            std::to_string(writer.body_bytes()) + " bytes are over the limit of " +
                            std::to_string(kMaxFrameBytes));
  }
  const std::string frame = writer.take();
  if (base && !segment_->empty()) OVERLORD_RETURN_IF_ERROR(begin_segment());
  OVERLORD_RETURN_IF_ERROR(with_space([&] { return segment_->put(frame); }));
  if (base) OVERLORD_RETURN_IF_ERROR(settle_claim(folder_, operations_));
  ++counts_.syncs;
  counts_.written_bytes += frame.size();
  // Sync first, look then: see the header.
  OVERLORD_TRY(const std::vector<SegmentName> segments, look());
  if (base) remove_older(segments);
  return {};
}

Status FileJournal::begin_segment() {
  const SegmentName name{term_, segment_->name().number + 1};
  int fd = -1;
  OVERLORD_RETURN_IF_ERROR(with_space([&] {
    return FileError{"cannot make a segment",
                     operations_->create(folder_ + "/" + name.text(), &fd)};
  }));
  segment_ = std::make_unique<SegmentWriter>(folder_, name, fd, operations_);
  return {};
}

Status FileJournal::with_space(const std::function<FileError()>& attempt) {
  while (true) {
    const FileError error = attempt();
    if (!error.full()) {
      // Without its folder a call fails in many ways; look() has the better words.
      if (error.code == ENOENT) OVERLORD_RETURN_IF_ERROR(look().status());
      return error.code == 0 ? Status() : journal_error(segment_->path(), error);
    }
    // Whoever has lost the folder need not wait.
    OVERLORD_RETURN_IF_ERROR(look().status());
    if (!wait_for_space()) {
      return {Code::kCancelled, "journal " + quote(folder_) +
                                    " was closed while it waited for disk space; what was not "
                                    "called durable may be lost"};
    }
  }
}

// False: the journal is closed.
bool FileJournal::wait_for_space() {
  std::unique_lock lock(mutex_);
  is_held(mutex_);
  counts_.waits_for_space = true;
  const bool stopped =
      wake_.wait_for(lock, kSpacePause, [this]() OVERLORD_REQUIRES(mutex_) { return stopping_; });
  return !stopped;
}

// What is in the folder while it is still this term's. The listing comes first: a successor removes
// our segment before any of its own, so where those came and went unseen ours is gone.
Result<std::vector<SegmentName>> FileJournal::look() const {
  Result<std::vector<SegmentName>> segments = list_segments(folder_);
  if (segments.ok()) {
    OVERLORD_RETURN_IF_ERROR(check_term(*segments));
    if (segment_->in_place()) return segments;
    segments = list_segments(folder_);
    if (segments.ok()) OVERLORD_RETURN_IF_ERROR(check_term(*segments));
  }
  if (!segments.ok() && segments.status().code() != Code::kNotFound) return segments.status();
  return Status(Code::kResource, "journal " + quote(segment_->path()) +
                                     " was removed or moved while it was written; start again, "
                                     "and leave the folder of a run alone");
}

Status FileJournal::check_term(const std::vector<SegmentName>& segments) const {
  if (segments.empty() || segments.back().term <= term_) return {};
  return {Code::kUnavailable, "journal " + quote(folder_) + " was taken over by term " +
                                  std::to_string(segments.back().term) + ", this is term " +
                                  std::to_string(term_)};
}

// Oldest first, and none behind one that stays: look() counts on it. What stays is tried again by
// the next compact().
void FileJournal::remove_older(const std::vector<SegmentName>& segments) {
  for (const SegmentName& name : segments) {
    if (name >= segment_->name()) return;
    const int error = operations_->remove(folder_ + "/" + name.text());
    if (error != 0 && error != ENOENT) return;
  }
}

}  // namespace overlord::storage
