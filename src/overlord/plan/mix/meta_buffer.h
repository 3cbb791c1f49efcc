// MetaBuffer: the posted metadata windows of one source, ahead of its cursor. Arrival order does
// not matter: windows are addressed by (pass, first position) and read only in the source's order.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "overlord/model/sample_meta.h"

namespace overlord::plan {

using MetaWindowPtr = std::shared_ptr<const model::MetaWindow>;

struct MetaNeed {  // the first position of a source that a step needs and nobody has posted
  SourceIndex source = 0;
  uint32_t pass = 0;
  uint64_t position = 0;

  friend bool operator==(const MetaNeed&, const MetaNeed&) = default;
};

class MetaBuffer {
 public:
  // A window without rows is no news; of a window posted twice (a restarted loader) the first
  // stays.
  void post(MetaWindowPtr window);
  // The window that holds (pass, position), or null when it has not been posted yet.
  const model::MetaWindow* find(uint32_t pass, uint64_t position) const;
  // Put aside windows that end at or before (pass, position): they are found no more.
  void trim(uint32_t pass, uint64_t position);
  // Of those put aside, for good.
  void forget(uint32_t pass, uint64_t position);
  // What was put aside is back: the stream goes on from an earlier step.
  void take_back();
  uint64_t rows() const { return rows_; }
  size_t windows() const { return windows_.size(); }

 private:
  using Windows = std::map<std::pair<uint32_t, uint64_t>, MetaWindowPtr>;
  static bool passed(const model::MetaWindow& window, uint32_t pass, uint64_t position);

  Windows windows_, aside_;
  uint64_t rows_ = 0;
};

}  // namespace overlord::plan
