// Never the same again, on any machine.
#pragma once

#include <fstream>
#include <string>

namespace overlord::node {

inline std::string drawn_once() {
  std::ifstream file("/proc/sys/kernel/random/uuid");
  std::string text;
  file >> text;
  return text;
}

}  // namespace overlord::node
