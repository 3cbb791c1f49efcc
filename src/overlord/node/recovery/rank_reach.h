// RankReach: how far the ranks of a host have got, in memory that all of them share: the file
// `reach` of the node's directory. When no node comes back nobody is left to say where the stream
// stops, so the ranks do: before the same step, which all of them find here. Any thread; a rank
// that was killed holds no lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "overlord/base/ids.h"
#include "overlord/base/status.h"

namespace overlord::node {

class RankReach {
 public:
  static constexpr StepIndex kAll = std::numeric_limits<StepIndex>::max() - 3;  // of the stream

  // `ranks`: of the job; those that have not joined hold up nobody.
  static Result<std::unique_ptr<RankReach>> open(const std::string& directory, uint32_t ranks);
  ~RankReach();
  RankReach(const RankReach&) = delete;
  RankReach& operator=(const RankReach&) = delete;

  void join(Rank rank, StepIndex first_step);
  void leave(Rank rank);  // it asks for nothing any more
  // A rank that has not left, of another process that lives.
  bool others() const;
  void set_ready(Rank rank, StepIndex limit);  // steps before it have come
  void set_begun(Rank rank, StepIndex limit);  // its trainer has got something of those before it

  // Steps before it may be begun while there is no node: every rank has them, or some rank has
  // begun them and the others have to get there.
  StepIndex common() const;
  // Nobody begins this step or a later one any more. The first call of all ranks decides.
  StepIndex stop();
  // Whether that was decided, or is being. Who has said set_begun() before it asks this is counted
  // by whoever decides, or learns here that it is too late.
  std::optional<StepIndex> stopped();

 private:
  RankReach(std::atomic<uint64_t>* words, uint32_t ranks) : words_(words), ranks_(ranks) {}
  size_t size_bytes() const;

  std::atomic<uint64_t>& of(Rank rank, size_t word) const {
    return words_[1 + kWords * rank + word];
  }
  static constexpr size_t kWords = 4;  // of a rank: ready, begun, its process and that one's start

  std::atomic<uint64_t>* words_;  // the decision; then those of each rank
  const uint32_t ranks_;
};

// A run that begins anew finds nothing of the one before.
void forget_reach(const std::string& directory);

}  // namespace overlord::node
