// Descriptor: a file descriptor that is closed with its owner. Moves, never copies; shared by
// wrapping it in a shared_ptr. It knows nothing of what the descriptor is.
#pragma once

#include <unistd.h>

#include <utility>

namespace overlord::runtime {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      number_ = other.release();
    }
    return *this;
  }
  ~Descriptor() { reset(); }

  bool valid() const { return number_ >= 0; }
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }
  void reset() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_ = -1;
};

}  // namespace overlord::runtime
