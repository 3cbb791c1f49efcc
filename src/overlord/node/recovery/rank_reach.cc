#include "overlord/node/recovery/rank_reach.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <system_error>

#include "overlord/base/check.h"
#include "overlord/node/recovery/living_process.h"
#include "overlord/transport/socket_directory.h"

namespace overlord::node {
namespace {

constexpr const char* kReachFile = "reach";
constexpr uint64_t kStopping = 1;  // the decision: nothing, this, or two more than the step

static_assert(std::atomic<uint64_t>::is_always_lock_free, "other processes share it");

}  // namespace

Result<std::unique_ptr<RankReach>> RankReach::open(const std::string& directory, uint32_t ranks) {
  OVERLORD_TRY(const auto at, transport::SocketDirectory::find(directory));
  const runtime::Descriptor file(
      openat(at.descriptor(), kReachFile, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  std::unique_ptr<RankReach> reach(new RankReach(nullptr, ranks));
  void* memory = MAP_FAILED;
  // Its blocks are there from now on: a full disk is an error here and not a signal later.
  if (file.valid() &&
      posix_fallocate(file.get(), 0, static_cast<off_t>(reach->size_bytes())) == 0) {
    memory = mmap(nullptr, reach->size_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  }
  if (memory == MAP_FAILED) {
    return Status(Code::kResource, "cannot share " + directory + "/" + kReachFile + ": " +
                                       std::generic_category().message(errno));
  }
  reach->words_ = static_cast<std::atomic<uint64_t>*>(memory);
  return reach;
}

RankReach::~RankReach() {
  if (words_ != nullptr) munmap(words_, size_bytes());
}

size_t RankReach::size_bytes() const { return (1 + kWords * ranks_) * sizeof(*words_); }

void RankReach::join(Rank rank, StepIndex first_step) {
  const LivingProcess self = own_process();
  of(rank, 2) = static_cast<uint64_t>(self.pid);
  of(rank, 3) = self.started;
  set_begun(rank, first_step);
  set_ready(rank, first_step);
}

void RankReach::leave(Rank rank) { of(rank, 0) = 0; }

bool RankReach::others() const {
  for (Rank rank = 0; rank < ranks_; ++rank) {
    if (of(rank, 0) == 0) continue;
    const auto pid = static_cast<int64_t>(of(rank, 2));
    if (pid != getpid() && handle_of({pid, of(rank, 3)}).valid()) return true;
  }
  return false;
}

// Counted from one: nothing is who has not joined.
void RankReach::set_ready(Rank rank, StepIndex limit) {
  OVERLORD_CHECK(rank < ranks_, "a rank of the job");
  of(rank, 0) = limit + 1;
}

void RankReach::set_begun(Rank rank, StepIndex limit) {
  OVERLORD_CHECK(rank < ranks_, "a rank of the job");
  of(rank, 1) = limit;
}

StepIndex RankReach::common() const {
  StepIndex ready = kAll;
  StepIndex begun = 0;
  for (Rank rank = 0; rank < ranks_; ++rank) {
    const uint64_t limit = of(rank, 0);
    if (limit == 0) continue;
    ready = std::min(ready, limit - 1);
    begun = std::max<StepIndex>(begun, of(rank, 1));
  }
  return std::max(ready, begun);
}

// Whoever is killed on its way leaves the decision to the next.
StepIndex RankReach::stop() {
  std::atomic<uint64_t>& decision = words_[0];
  uint64_t found = 0;
  decision.compare_exchange_strong(found, kStopping);
  const StepIndex step = common();
  found = kStopping;
  if (decision.compare_exchange_strong(found, step + 2)) return step;
  return found - 2;
}

std::optional<StepIndex> RankReach::stopped() {
  if (words_[0] == 0) return std::nullopt;
  return stop();
}

void forget_reach(const std::string& directory) { unlink((directory + "/" + kReachFile).c_str()); }

}  // namespace overlord::node
