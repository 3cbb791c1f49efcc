// The journal of planners in the simulated world. JournalDisk is what outlives them: what is
// written there, and which term may write. SlowJournal is the journal of one planner: records
// become durable after a while, or are lost with it. Test only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "overlord/protocol/journal/journal_record.h"
#include "overlord/runtime/seams.h"
#include "overlord/sim/world.h"

namespace overlord::sim {

class JournalDisk {
 public:
  // The next term; those before it write nothing more.
  uint32_t claim() { return ++term_; }
  uint32_t term() const { return term_; }
  // What a planner that starts now would find.
  std::vector<protocol::JournalRecord> read() const;
  void append(std::string record) { records_.push_back(std::move(record)); }
  void compact(std::vector<std::string> records) { records_ = std::move(records); }
  // Whoever writes waits until then.
  void fill_until(int64_t when_ns) { full_until_ns_ = std::max(full_until_ns_, when_ns); }
  bool full(int64_t now_ns) const { return now_ns < full_until_ns_; }

 private:
  uint32_t term_ = 0;
  int64_t full_until_ns_ = 0;
  std::vector<std::string> records_;
};

struct JournalFaults {
  // Called before a sync and behind it: somebody may die there.
  std::function<void()> around_sync = {};
  uint64_t failing_sync = 0;  // this one fails, and all behind it; 0: none
  Spells* full = nullptr;     // of the disk, one chance at every sync
  bool unfenced = false;      // a mutant: an earlier term goes on as if nothing had happened
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
  int64_t last_ns_ = 0;
};

}  // namespace overlord::sim
