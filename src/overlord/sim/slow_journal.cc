#include "overlord/sim/slow_journal.h"

#include <algorithm>
#include <utility>

#include "overlord/base/check.h"

namespace overlord::sim {
namespace {

constexpr int64_t kSyncNs = 100'000;
constexpr int64_t kLookForSpaceNs = 200'000;

}  // namespace

std::vector<protocol::JournalRecord> JournalDisk::read() const {
  protocol::JournalReader reader;
  std::vector<protocol::JournalRecord> out;
  for (const std::string& bytes : records_) {
    Result<protocol::JournalRecord> record = reader.read(bytes);
    OVERLORD_CHECK(record.ok(), "a record that was written here");
    out.push_back(std::move(*record));
  }
  return out;
}

uint32_t JournalDisk::claim() {
  plans_of_term_ = 0;
  return ++term_;
}

void JournalDisk::note(const std::string& record) {
  const Result<protocol::JournalRecord> read = reader_.read(record);
  if (!read.ok()) return;
  const auto* plan = std::get_if<protocol::PlanRecord>(&*read);
  if (plan != nullptr) plans_[plan->step] = plan->plan_hash;
}

void JournalDisk::append(uint32_t term, std::string record) {
  if (term < term_) ++late_writes_;
  const size_t before = plans_.size();
  note(record);
  plans_of_term_ += plans_.size() - before;
  records_.push_back(std::move(record));
}

void JournalDisk::compact(uint32_t term, std::vector<std::string> records) {
  if (term < term_) ++late_writes_;
  records_ = std::move(records);
  for (const std::string& record : records_) note(record);
}

bool JournalDisk::holds(StepIndex step, const Digest& plan_hash) const {
  const auto found = plans_.find(step);
  return found != plans_.end() && found->second == plan_hash;
}

void SlowJournal::append(std::string record, std::function<void(Status)> durable) {
  write(
      {[term = term_, record = std::move(record)](JournalDisk& disk) { disk.append(term, record); },
       std::move(durable)});
}

void SlowJournal::compact(std::vector<std::string> records, std::function<void(Status)> durable) {
  write({[term = term_, records = std::move(records)](JournalDisk& disk) {
           disk.compact(term, records);
         },
         std::move(durable)});
}

void SlowJournal::write(Write one) {
  if (faults_.mutant == Mutant::kDiskLies) std::exchange(one.durable, [](Status) {})(Status());
  waiting_.push_back(std::move(one));
  last_ns_ = std::max(last_ns_, world_.now_ns() + world_.dice().delay_ns(kSyncNs));
  world_.at(last_ns_, [this] { sync(); });
}

void SlowJournal::sync() {
  if (!dead_ && faults_.around_sync) faults_.around_sync();
  if (dead_ || waiting_.empty() || waits_for_space()) return;
  const Write one = std::move(waiting_.front());
  waiting_.pop_front();
  ++syncs_;
  if (disk_.term() > term_ && faults_.mutant != Mutant::kJournalFencesNobody) {
    return one.durable(Status(Code::kUnavailable, "journal: taken over by a later term"));
  }
  if (faults_.failing_sync != 0 && syncs_ >= faults_.failing_sync) {
    world_.landed(Fault::kSyncFails);
    failed_ = true;
    return one.durable(Status(Code::kResource, "journal: sync failed"));
  }
  one.change(disk_);
  one.durable(Status());
  if (faults_.around_sync) faults_.around_sync();
}

// Whoever has lost the journal need not wait.
bool SlowJournal::waits_for_space() {
  const int64_t now_ns = world_.now_ns();
  if (faults_.full != nullptr && world_.strikes(faults_.full)) {
    world_.landed(Fault::kDiskFull);
    disk_.fill_until(now_ns + world_.dice().delay_ns(faults_.full->lasts_ns));
  }
  if (!disk_.full(now_ns) || disk_.term() > term_) return false;
  world_.be_patient(now_ns);
  world_.at(now_ns + kLookForSpaceNs, [this] { sync(); });
  return true;
}

void SlowJournal::die() {
  if (std::exchange(dead_, true)) return;
  const uint64_t reached = world_.dice().below(waiting_.size() + 1);
  const uint64_t written = failed_ ? 0 : reached;  // nothing is written behind what has failed
  if (written < waiting_.size()) world_.landed(Fault::kDiskLoses);
  for (uint64_t i = 0; i < written && disk_.term() == term_; ++i) waiting_[i].change(disk_);
  waiting_.clear();
}

}  // namespace overlord::sim
