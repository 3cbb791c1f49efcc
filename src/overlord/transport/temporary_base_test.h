// Test support of this room: a directory for socket directories that is gone with its owner.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace overlord::transport {

class TemporaryBase {
 public:
  TemporaryBase() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sockets-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryBase() { std::filesystem::remove_all(path_); }
  TemporaryBase(const TemporaryBase&) = delete;
  TemporaryBase& operator=(const TemporaryBase&) = delete;

  std::string path() const { return path_; }
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace overlord::transport
