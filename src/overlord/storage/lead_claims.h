// LeadClaims: who leads a job of several hosts, told in a folder that all hosts share which may
// lead: files `lead-NNNNNNNN`, of which the newest counts. Whoever makes the next one leads from
// then on, and the one before learns it by looking. So it all rests on two things that a folder
// between hosts may not have, and that are tried beforehand: a file is made by one host alone, and
// the others see it at once.
#pragma once

#include <cstdint>
#include <string>

#include "overlord/base/status.h"
#include "overlord/storage/file_operations.h"

namespace overlord::storage {

struct LeadClaim {
  uint32_t number = 0;  // 0: nobody has led yet
  std::string holder;   // its address; empty: it has ended, or nobody knows

  bool held() const { return number > 0 && holder != kEnded; }
  static constexpr const char* kEnded = "-";
};

class LeadClaims {
 public:
  // A folder below one that is there already: where another disk should be mounted and is not, it
  // would be made here alone. Refused by name: one that does not keep what it promises to this
  // host.
  // `drawn`: a name that nobody else has.
  static Result<LeadClaims> open(const std::string& folder, const std::string& drawn,
                                 FileOperations& operations = FileOperations::real());

  const std::string& folder() const { return folder_; }
  Result<LeadClaim> newest() const;
  // False: another has it. True once it is durable.
  Result<bool> claim(uint32_t number, const std::string& holder) const;

  // For another host to see: a file of this name.
  Result<std::string> leave_mark(const std::string& name) const;
  // Of another host; it is removed. Refused by name where it is not seen at once, or can be made
  // again.
  Status see_mark(const std::string& name) const;

 private:
  LeadClaims(std::string folder, FileOperations* operations)
      : folder_(std::move(folder)), operations_(operations) {}
  Status try_out(const std::string& drawn) const;
  // The errno of the first call that failed; 0.
  int make(const std::string& name, const std::string& text) const;

  std::string folder_;
  FileOperations* operations_;
};

}  // namespace overlord::storage
