#include "overlord/node/recovery/node_pulse.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <system_error>

#include "overlord/node/recovery/directory_file.h"
#include "overlord/protocol/fields/field_codec.h"

namespace overlord::node {
namespace {

constexpr const char* kPulseFile = "pulse";
constexpr std::chrono::milliseconds kPulse{500};  // half of the time between two looks

}  // namespace

Result<std::unique_ptr<NodePulse>> NodePulse::begin(const std::string& directory) {
  ByteWriter writer;
  protocol::FieldWriter fields(&writer);
  fields(own_process());
  OVERLORD_RETURN_IF_ERROR(write_directory_file(directory, kPulseFile, writer.take()));
  std::unique_ptr<NodePulse> pulse(new NodePulse(directory));
  try {
    pulse->thread_ = std::thread([self = pulse.get()] { self->run(); });
  } catch (const std::system_error& error) {
    return Status(Code::kResource, std::string("no thread for a pulse: ") + error.what());
  }
  return pulse;
}

NodePulse::~NodePulse() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void NodePulse::run() {
  const std::string path = directory_ + "/" + kPulseFile;
  std::unique_lock lock(mutex_);
  is_held(mutex_);
  while (!over_) {
    changed_.wait_for(lock, kPulse, [this]() OVERLORD_REQUIRES(mutex_) { return over_; });
    // Where its directory was removed it is looked at by nobody.
    static_cast<void>(utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW));
  }
}

Result<SeenPulse> see_pulse(const std::string& directory) {
  OVERLORD_TRY(const std::string bytes, read_directory_file(directory, kPulseFile));
  ByteReader reader(bytes);
  protocol::FieldReader fields(&reader);
  SeenPulse out;
  fields(out.process);
  OVERLORD_RETURN_IF_ERROR(fields.status("the pulse of a node"));
  struct stat info{};
  if (lstat((directory + "/" + kPulseFile).c_str(), &info) != 0) {
    return not_found("there is no pulse in " + directory);
  }
  out.beat = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  return out;
}

void kill_node(const std::string& directory) {
  const Result<SeenPulse> seen = see_pulse(directory);
  if (seen.ok()) kill_process(handle_of(seen->process));
}

}  // namespace overlord::node
