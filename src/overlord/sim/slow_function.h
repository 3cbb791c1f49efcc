// SlowFunction: a user's function over media in virtual time. It answers late and in any order, and
// what it gives follows from the item alone: every byte changed by the item's key, or nothing.
#pragma once

#include <cstdint>

#include "overlord/runtime/media_function.h"
#include "overlord/sim/world.h"

namespace overlord::sim {

class SlowFunction final : public runtime::MediaFunction {
 public:
  explicit SlowFunction(World& world) : world_(world) {}

  // One item in so many is refused, by its key.
  static constexpr uint64_t kRefusedOneIn = 11;

  void apply(runtime::FunctionItem item, runtime::CancelToken,
             runtime::FunctionDone done) override {
    world_.post_after(
        world_.dice().delay_ns(200'000), [item = std::move(item), done = std::move(done)] {
          if (item.key % kRefusedOneIn == 0) return done(bad_data("is not to its taste"));
          for (size_t i = 0; i < item.given.size; ++i) {
            item.made.data.get()[i] = static_cast<char>(static_cast<uint8_t>(item.given.data[i]) ^
                                                        static_cast<uint8_t>(item.key >> i % 64));
          }
          done(int64_t{1000});
        });
  }

 private:
  World& world_;
};

}  // namespace overlord::sim
