// The journal of planners in the simulated world. JournalDisk is what outlives them: what is
// written there, and which term may write. SlowJournal is the journal of one planner: records
// become durable after a while, or are lost with it. Test only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "overlord/protocol/journal/journal_record.h"
#include "overlord/protocol/journal/record_chain.h"
#include "overlord/runtime/seams.h"
#include "overlord/sim/mutants.h"
#include "overlord/sim/world.h"

namespace overlord::sim {

class JournalDisk {
 public:
  // The next term; those before it write nothing more.
  uint32_t claim();
  uint32_t term() const { return term_; }
  // What a planner that starts now would find.
  std::vector<protocol::JournalRecord> read() const;
  void append(uint32_t term, std::string record);
  void compact(uint32_t term, std::vector<std::string> records);
  // Has this plan ever been on it?
  bool holds(StepIndex step, const Digest& plan_hash) const;
  uint64_t plans_of_term() const { return plans_of_term_; }
  // By terms that were over.
  uint64_t late_writes() const { return late_writes_; }
  // Whoever writes waits until then.
  void fill_until(int64_t when_ns) { full_until_ns_ = std::max(full_until_ns_, when_ns); }
  bool full(int64_t now_ns) const { return now_ns < full_until_ns_; }

 private:
  void note(const std::string& record);

  uint32_t term_ = 0;
  int64_t full_until_ns_ = 0;
  uint64_t plans_of_term_ = 0;
  uint64_t late_writes_ = 0;
  protocol::JournalReader reader_;  // of what is there
  std::map<StepIndex, Digest> plans_;
  std::vector<std::string> records_;
};

struct JournalFaults {
  // Called before a sync and behind it: somebody may die there.
  std::function<void()> around_sync = {};
  uint64_t failing_sync = 0;  // this one fails, and all behind it; 0: none
  Spells* full = nullptr;     // of the disk, one chance at every sync
  Mutant mutant = Mutant::kNone;
};

class SlowJournal final : public runtime::Journal {
 public:
  SlowJournal(World& world, JournalDisk& disk, JournalFaults faults)
      : world_(world), disk_(disk), faults_(std::move(faults)), term_(disk.claim()) {}

  uint32_t term() const { return term_; }
  static constexpr uint32_t kPlansAhead = 3;
  uint32_t most_plans_ahead() const override { return kPlansAhead; }
  void append(std::string record, std::function<void(Status)> durable) override;
  void compact(std::vector<std::string> records, std::function<void(Status)> durable) override;
  // Its planner is dead: what was on its way has reached the disk, up to some record, or is lost.
  void die();

 private:
  struct Write {
    std::function<void(JournalDisk&)> change;
    std::function<void(Status)> durable;
  };
  void write(Write one);
  void sync();
  bool waits_for_space();

  World& world_;
  JournalDisk& disk_;
  const JournalFaults faults_;
  const uint32_t term_;
  std::deque<Write> waiting_;  // in order
  uint64_t syncs_ = 0;
  bool dead_ = false;
  bool failed_ = false;  // for good
  int64_t last_ns_ = 0;
};

}  // namespace overlord::sim
