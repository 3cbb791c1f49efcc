#include "overlord/node/recovery/node_restart.h"

#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <system_error>

#include "overlord/node/recovery/directory_file.h"
#include "overlord/protocol/fields/field_codec.h"
#include "overlord/runtime/descriptor.h"
#include "overlord/transport/socket_directory.h"
#include "overlord/workers/spawn_settings.h"

extern char** environ;

namespace overlord::node {
namespace {

constexpr const char* kRestartFile = "restart";
constexpr int kLockDescriptor = 3;  // of the node
constexpr char kJobFollows = 'J';   // as LifeLine takes it

Status restart_failure(const std::string& what, int error) {
  return {Code::kResource, what + ": " + std::generic_category().message(error)};
}

std::vector<uint32_t> own_cores() {
  cpu_set_t set;
  std::vector<uint32_t> out;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return out;
  for (uint32_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) out.push_back(core);
  }
  return out;
}

// The file that standard error goes to, if it is one.
std::string own_log() {
  struct stat info{};
  if (fstat(STDERR_FILENO, &info) != 0 || !S_ISREG(info.st_mode)) return {};
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/fd/2", path, sizeof(path));
  return size > 0 ? std::string(path, static_cast<size_t>(size)) : std::string();
}

Result<runtime::Descriptor> job_on_input(const std::string& job) {
  runtime::Descriptor memory(memfd_create("overlord-restart", MFD_CLOEXEC));
  if (!memory.valid()) return restart_failure("cannot hold the job (memfd_create)", errno);
  ByteWriter writer;
  writer.u64(job.size() + 1);
  const std::string bytes = writer.take() + kJobFollows + job;
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = write(memory.get(), bytes.data() + done, bytes.size() - done);
    if (count <= 0) return restart_failure("cannot hold the job", errno);
    done += static_cast<size_t>(count);
  }
  lseek(memory.get(), 0, SEEK_SET);
  return memory;
}

int connect_node(workers::SpawnSettings* settings, int input, int lock, const std::string& log) {
  posix_spawn_file_actions_t* actions = &settings->actions;
  int error = posix_spawn_file_actions_adddup2(actions, input, STDIN_FILENO);
  if (error == 0 && !log.empty()) {
    error = posix_spawn_file_actions_addopen(actions, STDERR_FILENO, log.c_str(),
                                             O_WRONLY | O_APPEND | O_CREAT, 0600);
  }
  // Not the trainer's own: who reads what that prints waits for its end, not for the node's.
  if (error == 0) error = posix_spawn_file_actions_adddup2(actions, STDERR_FILENO, STDOUT_FILENO);
  if (error == 0) error = posix_spawn_file_actions_adddup2(actions, lock, kLockDescriptor);
  if (error == 0) error = settings->close_from(kLockDescriptor + 1);
  if (error == 0) error = settings->default_signals(/*own_group=*/true);
  return error;
}

// The first process of a node steps back once the second is there.
Status spawn(const std::string& directory, const NodeRestart& restart, int lock) {
  OVERLORD_TRY(const runtime::Descriptor input, job_on_input(restart.job));
  // Not a low number: what is put in its place there would close it.
  const runtime::Descriptor high(fcntl(lock, F_DUPFD_CLOEXEC, kLockDescriptor + 1));
  workers::SpawnSettings settings;
  int error = connect_node(&settings, input.get(), high.get(), restart.log);
  if (error != 0) return restart_failure("cannot prepare a process", error);
  std::vector<std::string> texts = {restart.executable, "keep", directory,
                                    std::to_string(kLockDescriptor), restart.job_digest};
  texts.insert(texts.end(), restart.words.begin(), restart.words.end());
  std::vector<char*> arguments;
  for (std::string& text : texts) arguments.push_back(text.data());
  arguments.push_back(nullptr);
  if (!restart.cores.empty()) {  // of this thread, which has nothing else to do
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const uint32_t core : restart.cores) CPU_SET(core, &set);
    sched_setaffinity(0, sizeof(set), &set);
  }
  pid_t pid = 0;
  error = posix_spawn(&pid, restart.executable.c_str(), &settings.actions, &settings.attributes,
                      arguments.data(), environ);
  if (error != 0) return restart_failure("cannot start " + restart.executable, error);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) return {};
  return {Code::kUnavailable, restart.executable + " cannot start, it ended with status " +
                                  std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : status)};
}

}  // namespace

NodeRestart restart_of(std::string executable, std::string job_digest,
                       std::vector<std::string> words, std::string job) {
  return {std::move(executable), std::move(job_digest), std::move(words),
          std::move(job),        own_cores(),           own_log()};
}

Status leave_restart(const std::string& directory, const NodeRestart& restart) {
  ByteWriter writer;
  protocol::FieldWriter fields(&writer);
  fields(restart);
  return write_directory_file(directory, kRestartFile, writer.take());
}

Result<NodeRestart> find_restart(const std::string& directory) {
  OVERLORD_TRY(const std::string bytes, read_directory_file(directory, kRestartFile));
  ByteReader reader(bytes);
  protocol::FieldReader fields(&reader);
  NodeRestart out;
  fields(out);
  OVERLORD_RETURN_IF_ERROR(fields.status("what a node was started with"));
  return out;
}

Result<bool> start_node_again(const std::string& directory) {
  OVERLORD_TRY(transport::SocketDirectory at, transport::SocketDirectory::find(directory));
  OVERLORD_TRY(const std::optional<transport::DirectoryLock> lock, at.try_lock());
  if (!lock) return false;
  OVERLORD_TRY(const NodeRestart restart, find_restart(directory));
  OVERLORD_RETURN_IF_ERROR(spawn(directory, restart, lock->descriptor()));
  return true;
}

}  // namespace overlord::node
