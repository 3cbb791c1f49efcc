#include "overlord/sim/slow_storage.h"

#include <memory>
#include <utility>

namespace overlord::sim {
namespace {

constexpr int64_t kReadNs = 200'000;
constexpr int64_t kStuck = 20;  // times as long as a late one

}  // namespace

int64_t SlowStorage::trouble_ns() {
  if (!world_.strikes(&storm_.late)) return 0;
  const bool stuck = world_.dice().below(4) == 0;
  const int64_t lasts_ns = world_.dice().delay_ns(storm_.late.lasts_ns) * (stuck ? kStuck : 1);
  world_.landed(stuck ? Fault::kReadStuck : Fault::kReadLate);
  world_.be_patient(world_.now_ns() + lasts_ns);
  return lasts_ns;
}

void SlowStorage::read(runtime::ReadRequest request, runtime::CancelToken cancel,
                       runtime::ReadDone done) {
  const bool fails = storm_.failing_read != 0 && ++reads_ >= storm_.failing_read;
  int64_t takes_ns = trouble_ns();
  takes_ns += world_.dice().delay_ns(kReadNs);
  auto shared = std::make_shared<runtime::ReadRequest>(std::move(request));
  world_.post_after(takes_ns, [this, shared, cancel, done, fails] {
    if (cancel.cancelled()) return done(Status(Code::kCancelled, "read cancelled"));
    if (!fails) return done(objects_.read_blocking(*shared));
    world_.landed(Fault::kReadFails);
    done(Status(Code::kUnavailable, "cannot read " + shared->uri + ": it ends before its end"));
  });
}

}  // namespace overlord::sim
