// overlord-node: the node process of a job on one host, and its role processes. Started by the
// first trainer or by `overlord serve`; not for typing by hand.
//
//   overlord-node keep DIRECTORY LOCK_DESCRIPTOR JOB_DIGEST OPTION=VALUE...  (the job on stdin)
//   overlord-node join DIRECTORY LOCK_DESCRIPTOR JOB_DIGEST OPTION=VALUE...  (the job on stdin)
//   overlord-node role DIRECTORY NAME GENERATION        (the job on descriptor 3)
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "overlord/node/engine/job_memory.h"
#include "overlord/node/hosts/joined_host.h"
#include "overlord/node/hosts/leading_in_turn.h"
#include "overlord/node/keeper/keeper.h"
#include "overlord/node/keeper/refusal.h"
#include "overlord/node/process_memory.h"
#include "overlord/node/recovery/node_pulse.h"
#include "overlord/node/recovery/node_restart.h"
#include "overlord/node/role_process.h"
#include "overlord/protocol/job_codec.h"
#include "overlord/transport/socket_directory.h"

namespace overlord::node {
namespace {

constexpr int kJobDescriptor = 3;
constexpr int kBadUse = 2;

int complain(const std::string& text) {
  std::fprintf(stderr, "overlord-node: %s\n", text.c_str());
  return kBadUse;
}

std::string own_executable() {
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
  return size > 0 ? std::string(path, static_cast<size_t>(size)) : std::string();
}

// Signals that a terminal or a trainer's launcher sends to everybody are for the trainers.
void ignore_signals() {
  for (const int number : {SIGPIPE, SIGINT, SIGHUP}) signal(number, SIG_IGN);
}

std::vector<Rank> ranks_in(const std::string& text) {
  std::vector<Rank> ranks;
  for (size_t at = 0; at < text.size(); at = text.find(',', at) + 1) {
    ranks.push_back(static_cast<Rank>(std::strtoul(text.c_str() + at, nullptr, 10)));
    if (text.find(',', at) == std::string::npos) break;
  }
  return ranks;
}

// With commas between them.
std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> out(1);
  for (const char one : text) one == ',' ? void(out.emplace_back()) : out.back().push_back(one);
  return out;
}

bool set_option(const std::string& text, KeeperArguments* arguments) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return false;
  const std::string key = text.substr(0, equals);
  const std::string value = text.substr(equals + 1);
  if (key == "loader_processes") {
    arguments->placement.loader_processes = static_cast<uint32_t>(std::atoi(value.c_str()));
  } else if (key == "constructor_processes") {
    arguments->placement.constructor_processes = static_cast<uint32_t>(std::atoi(value.c_str()));
  } else if (key == "isolate") {
    arguments->placement.isolated.push_back(names_in(value));
  } else if (key == "isolate_by_rule") {
    arguments->placement.by_rule = value == "1";
  } else if (key == "attach_ms") {
    arguments->attach_ms = std::atoll(value.c_str());
  } else if (key == "stays") {
    arguments->stays = value == "1";
  } else if (key == "reruns") {
    arguments->reruns = value == "1";
  } else if (key == "lead_returns") {
    arguments->lead_returns = value == "1";
  } else if (key == "local") {
    arguments->local = ranks_in(value);
  } else if (key == "starter") {
    arguments->starter = ranks_in(value);
  } else if (key == "attempt") {
    arguments->attempt = static_cast<uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
  } else if (key == "run") {
    arguments->run = value;
  } else if (key == "recovery_ms") {
    arguments->recovery_ms = std::atoll(value.c_str());
  } else if (key == "orphan_ms") {
    arguments->orphan_ms = std::atoll(value.c_str());
  } else if (key == "memory_bytes") {
    arguments->gives.memory_bytes = std::strtoull(value.c_str(), nullptr, 10);
  } else if (key == "memory_enforced") {
    arguments->gives.memory_enforced = value == "1";
  } else if (key == "share_batches") {
    arguments->share_batches = value == "1";
  } else {
    return arguments->wire.take(key, value) || arguments->metrics.take(key, value);
  }
  return true;
}

// False: what is wrong with them has been said.
bool read_arguments(const std::vector<std::string>& words, KeeperArguments* arguments, int* lock) {
  if (words.size() < 3) {
    complain("keep or join DIRECTORY LOCK JOB_DIGEST [OPTION=VALUE]");
    return false;
  }
  arguments->directory = words[0];
  arguments->executable = own_executable();
  *lock = std::atoi(words[1].c_str());
  if (!Digest::parse(words[2], &arguments->job)) {
    complain("not a digest: " + words[2]);
    return false;
  }
  for (size_t i = 3; i < words.size(); ++i) {
    if (set_option(words[i], arguments)) continue;
    complain("unknown option " + words[i]);
    return false;
  }
  return true;
}

// The first process only starts the second and ends, so that the node is nobody's child.
bool step_back() {
  const pid_t child = fork();  // no thread has been started
  if (child != 0) _exit(child < 0 ? 1 : 0);
  return setsid() >= 0;
}

// From the job that comes, or does not come, over `line` to the end.
int keep_job(const KeeperArguments& arguments, const std::vector<std::string>& words,
             LifeLine& line, bool* superseded) {
  std::optional<keeper::FailureBook> failure;
  Result<std::string> bytes = line.job();
  if (bytes.ok()) {
    Result<protocol::JobFile> job = protocol::decode_job_file(*bytes);
    // One that stays is started again by whom it belongs to.
    if (arguments.comes_back() && !arguments.stays) {
      const Status left = leave_restart(
          arguments.directory,
          restart_of(arguments.executable, arguments.job.hex(), words, std::move(*bytes)));
      if (!left.ok()) complain(left.message());
    }
    failure = job.ok() ? run_keeper(arguments, *job, line, superseded)
                       : keeper::FailureBook(job.status(), arguments.attempt, arguments.local);
  } else if (bytes.status().code() != Code::kCancelled) {
    complain(bytes.status().message());
    failure.emplace(bytes.status(), arguments.attempt, arguments.local);
    failure->told(arguments.starter);
  }
  // A lead that has no job does not know the ranks of other hosts.
  const bool unknown = arguments.wire.leads && !bytes.ok();
  if (failure && !arguments.stays) run_refusal(arguments, *failure, unknown, line);
  return failure ? 1 : 0;
}

// One of several that may lead.
int keep_in_turn(const KeeperArguments& arguments, LifeLine& line) {
  const Result<std::string> bytes = line.job();
  Status status = bytes.status();
  if (bytes.ok()) {
    const Result<protocol::JobFile> job = protocol::decode_job_file(*bytes);
    status = job.ok() ? lead_in_turn(arguments, *job, line) : job.status();
  }
  if (status.ok() || status.code() == Code::kCancelled) return 0;
  return complain(status.message()), 1;
}

void remove_directory(const std::string& path, int lock) {
  Result<transport::SocketDirectory> directory = transport::SocketDirectory::find(path);
  if (!directory.ok()) return;
  const Status removed = directory->remove(transport::DirectoryLock::inherited(lock));
  if (!removed.ok()) complain(removed.message());
}

int keep(const std::vector<std::string>& words) {
  KeeperArguments arguments;
  int lock = -1;
  if (!read_arguments(words, &arguments, &lock)) return kBadUse;
  if (!arguments.stays && !step_back()) return complain("setsid failed");
  if (arguments.wire.several_hosts()) keep_large_buffers();
  ignore_signals();
  prctl(PR_SET_NAME, "overlord-node");
  fcntl(lock, F_SETFD, FD_CLOEXEC);  // ours as long as we live, no child's
  Result<std::unique_ptr<LifeLine>> line = LifeLine::make();
  if (!line.ok()) return complain(line.status().message());
  std::unique_ptr<NodePulse> pulse;
  if (arguments.comes_back()) {
    Result<std::unique_ptr<NodePulse>> begun = NodePulse::begin(arguments.directory);
    if (!begun.ok()) return complain(begun.status().message());
    pulse = std::move(*begun);
  }
  bool superseded = false;
  const int code = arguments.wire.at.empty()
                       ? keep_job(arguments, {words.begin() + 3, words.end()}, **line, &superseded)
                       : keep_in_turn(arguments, **line);
  pulse.reset();
  if (superseded) return 1;
  remove_directory(arguments.directory, lock);
  return code;
}

// A host without ranks, until it is told to end.
int join(const std::vector<std::string>& words) {
  KeeperArguments arguments;
  int lock = -1;
  if (!read_arguments(words, &arguments, &lock)) return kBadUse;
  keep_large_buffers();
  ignore_signals();
  prctl(PR_SET_NAME, "overlord-join");
  fcntl(lock, F_SETFD, FD_CLOEXEC);
  Result<std::unique_ptr<LifeLine>> line = LifeLine::make();
  if (!line.ok()) return complain(line.status().message());
  const Result<std::string> bytes = (*line)->job();
  Status status = bytes.status();
  if (bytes.ok()) {
    const Result<protocol::JobFile> job = protocol::decode_job_file(*bytes);
    status = job.ok() ? run_joined_host(arguments, *job, **line).status() : job.status();
  }
  remove_directory(arguments.directory, lock);
  if (status.ok() || status.code() == Code::kCancelled) return 0;
  complain(status.message());
  return 1;
}

int serve_roles(const std::vector<std::string>& words) {
  if (words.size() < 3) return complain("role DIRECTORY NAME GENERATION [OPTION=VALUE]");
  RoleProcessArguments arguments{words[0], words[1], 1, {}, true, 0};
  for (size_t i = 3; i < words.size(); ++i) {
    if (words[i] == "share_batches=0") {
      arguments.share_batches = false;
      continue;
    }
    if (words[i].starts_with("orphan_ms=")) {
      arguments.orphan_ms = std::atoll(words[i].c_str() + words[i].find('=') + 1);
      continue;
    }
    const size_t equals = words[i].find('=');
    if (equals == std::string::npos ||
        !arguments.wire.take(words[i].substr(0, equals), words[i].substr(equals + 1))) {
      return complain("unknown option " + words[i]);
    }
  }
  if (arguments.wire.several_hosts()) keep_large_buffers();
  if (arguments.orphan_ms == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == 1) return 1;  // the node died before we could say that we die with it
  }
  ignore_signals();
  prctl(PR_SET_NAME, words[1].substr(0, 15).c_str());
  const Result<protocol::JobFile> job = read_job(kJobDescriptor);
  close(kJobDescriptor);
  if (!job.ok()) return complain(job.status().message());
  arguments.generation = static_cast<uint32_t>(std::strtoul(words[2].c_str(), nullptr, 10));
  return run_role_process(arguments, *job);
}

}  // namespace
}  // namespace overlord::node

int main(int count, char** words) {
  const std::vector<std::string> rest(words + std::min(count, 2), words + count);
  const std::string what = count > 1 ? words[1] : "";
  umask(077);
  overlord::node::give_back_what_is_freed();
  if (what == "keep") return overlord::node::keep(rest);
  if (what == "join") return overlord::node::join(rest);
  if (what == "role") return overlord::node::serve_roles(rest);
  return overlord::node::complain("keep, join or role, got '" + what + "'");
}
