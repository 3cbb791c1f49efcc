// LeadTurn: when a host that stands by takes the lead over: when the lead that it knew is lost to
// it, and a host with ranks calls here, which it does where no other of the list answers it. Who is
// cut off alone is called by nobody and leads nobody away. A value; claims make sure that of two
// whose turn it is one leads.
#pragma once

#include <cstdint>
#include <optional>

namespace overlord::node {

class LeadTurn {
 public:
  // For a lead that is started again where it was.
  static constexpr int64_t kGraceNs = 1'000'000'000;
  // Where nobody has led yet, or another may just have begun.
  static constexpr int64_t kStrangeNs = 10'000'000'000;

  explicit LeadTurn(int64_t now_ns) : since_ns_(now_ns) {}

  // The lead has answered; `newest`: the claim that counts.
  void answered(uint32_t newest) {
    claim_ = newest;
    linked_ = known_ = true;
  }
  void lost(int64_t now_ns) {
    linked_ = false;
    since_ns_ = now_ns;
  }
  // A host with ranks calls. The number to claim, if it is our turn.
  std::optional<uint32_t> asked(uint32_t newest, int64_t now_ns) {
    if (linked_) return std::nullopt;
    if (newest != claim_) {
      claim_ = newest;
      known_ = false;
      since_ns_ = now_ns;
    }
    if (now_ns - since_ns_ < (known_ ? kGraceNs : kStrangeNs)) return std::nullopt;
    return claim_ + 1;
  }

 private:
  uint32_t claim_ = 0;
  bool linked_ = false;
  bool known_ = false;  // the holder of `claim_` has answered us
  int64_t since_ns_;    // nothing was heard of the lead, nor of another claim
};

}  // namespace overlord::node
