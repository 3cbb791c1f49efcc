// Carries out the keeper's effects: places and kills groups, waits, and hands on to its world what
// belongs to that.
#include <deque>
#include <utility>

#include "overlord/roles/keeper/admission.h"
#include "overlord/roles/keeper/role.h"

namespace overlord::keeper {

class Keeper::Service : public std::enable_shared_from_this<Keeper::Service> {
 public:
  Service(KeeperJob job, KeeperWorld& world) : job_(std::move(job)), world_(world), state_(job_) {}

  // What happens while effects are carried out waits for its turn.
  void receive(Input input) {
    inputs_.push_back(std::move(input));
    if (busy_) return;
    busy_ = true;
    while (!inputs_.empty()) {
      const Input next = std::move(inputs_.front());
      inputs_.pop_front();
      for (const Effect& effect : react(job_, state_, next, world_.now_ns())) {
        std::visit([this](const auto& one) { carry_out(one); }, effect);
      }
    }
    busy_ = false;
  }

  const KeeperState& state() const { return state_; }

 private:
  template <typename OfTheWorld>
  void carry_out(const OfTheWorld& effect) {
    world_.carry_out(effect);
  }

  void carry_out(const Begin& attempt) {
    Begun begun = world_.begin(attempt);
    if (begun.status.ok()) {
      world_.cluster().watch(
          [weak = weak_from_this(), &world = world_](const runtime::GroupEnd& end) {
            world.on_loop([weak, end] {
              if (const std::shared_ptr<Service> self = weak.lock()) self->receive(Ended{end});
            });
          });
    }
    inputs_.push_front(std::move(begun));
  }

  void carry_out(const Place& place) {
    const Status status = world_.cluster().place(place.group);
    if (!status.ok()) inputs_.push_back(CannotServe{status});
  }

  void carry_out(const Kill& kill) { world_.cluster().kill(kill.name); }

  void carry_out(const After& after) {
    world_.after(after.delay_ns, [weak = weak_from_this(), after] {
      const std::shared_ptr<Service> self = weak.lock();
      if (self) self->receive(Expired{after.timer, after.number});
    });
  }

  const KeeperJob job_;
  KeeperWorld& world_;
  KeeperState state_;
  std::deque<Input> inputs_;
  bool busy_ = false;
};

Keeper::Keeper(KeeperJob job, KeeperWorld& world)
    : service_(std::make_shared<Service>(std::move(job), world)) {}
Keeper::~Keeper() = default;
void Keeper::receive(Input input) { service_->receive(std::move(input)); }
Status Keeper::admit(const protocol::Hello& hello) const {
  return keeper::admit(service_->state(), hello);
}
const KeeperState& Keeper::state() const { return service_->state(); }

}  // namespace overlord::keeper
