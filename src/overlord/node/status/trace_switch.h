// TraceSwitch: turns the trace of a process on and off as a file in the job's directory says, and
// leaves there what was kept. A file rather than a message: who draws need not be attached, and no
// role has to pass events on. Whoever draws touches the file; one that is old was forgotten.
#pragma once

#include <string>

namespace overlord::node {

class TraceSwitch {
 public:
  TraceSwitch(std::string directory, std::string name)
      : directory_(std::move(directory)), name_(std::move(name)) {}

  // To be called now and then, by one thread.
  void poll();

 private:
  bool wanted() const;
  void write_kept() const;

  std::string directory_;
  std::string name_;
};

}  // namespace overlord::node
