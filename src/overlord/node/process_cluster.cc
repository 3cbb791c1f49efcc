#include "overlord/node/process_cluster.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "overlord/base/guarded_by.h"
#include "overlord/workers/spawn_settings.h"

extern char** environ;

namespace overlord::node {
namespace {

constexpr size_t kWordsKept = 20;
constexpr size_t kLineBytes = 4096;  // a longer line is cut
constexpr int kJobDescriptor = 3;

Status system_failure(const std::string& what, int error) {
  return {Code::kResource, what + ": " + std::generic_category().message(error)};
}

std::string describe_end(int status) {
  if (WIFEXITED(status)) return "exit status " + std::to_string(WEXITSTATUS(status));
  return "signal " + std::to_string(WTERMSIG(status));
}

std::string filled(std::string text, const runtime::GroupPlacement& group) {
  for (const auto& [word, value] :
       {std::pair<std::string, std::string>{"{name}", group.name},
        std::pair<std::string, std::string>{"{generation}", std::to_string(group.generation)}}) {
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word)) {
      text.replace(at, word.size(), value);
    }
  }
  return text;
}

int connect(workers::SpawnSettings* settings, int output, int job) {
  posix_spawn_file_actions_t* actions = &settings->actions;
  int error = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (error == 0) error = posix_spawn_file_actions_adddup2(actions, output, STDOUT_FILENO);
  if (error == 0) error = posix_spawn_file_actions_adddup2(actions, output, STDERR_FILENO);
  if (error == 0 && job >= 0) {
    error = posix_spawn_file_actions_adddup2(actions, job, kJobDescriptor);
  }
  if (error == 0) error = settings->close_from(kJobDescriptor + (job >= 0 ? 1 : 0));
  if (error == 0) error = settings->default_signals(/*own_group=*/false);
  return error;
}

}  // namespace

ProcessCluster::ProcessCluster(ProcessClusterOptions options) : options_(std::move(options)) {}

Result<std::unique_ptr<ProcessCluster>> ProcessCluster::start(ProcessClusterOptions options) {
  std::unique_ptr<ProcessCluster> cluster(new ProcessCluster(std::move(options)));
  OVERLORD_RETURN_IF_ERROR(cluster->prepare());
  return cluster;
}

Status ProcessCluster::prepare() {
  wake_ = runtime::Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.valid()) return system_failure("cannot make an event descriptor", errno);
  try {
    watcher_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    return system_failure("cannot start the thread that watches role processes",
                          error.code().value());
  }
  return {};
}

ProcessCluster::~ProcessCluster() { stop(); }

void ProcessCluster::watch(Ended ended) {
  {
    const std::lock_guard lock(mutex_);
    ended_ = std::move(ended);
  }
  wake();
}

void ProcessCluster::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

Status ProcessCluster::place(const runtime::GroupPlacement& group) {
  return on_watcher([this, &group] { return spawn(group); });
}

Status ProcessCluster::adopt(const std::vector<LeftGroup>& groups) {
  return on_watcher([this, &groups]() -> Status {
    for (const LeftGroup& left : groups) take_over(left);
    tell_changed();
    return {};
  });
}

void ProcessCluster::take_over(const LeftGroup& left) {
  Child child;
  child.group = {left.name, left.generation};
  child.process = left.process;
  child.adopted = true;
  child.handle = handle_of(left.process);
  if (!child.handle.valid()) return;
  const std::lock_guard lock(mutex_);
  children_.emplace(left.name, std::move(child));
}

void ProcessCluster::tell_changed() {
  if (!options_.changed) return;
  std::vector<LeftGroup> living;
  for (const auto& [name, child] : children_) {
    living.push_back({name, child.group.generation, child.process});
  }
  options_.changed(living);
}

Status ProcessCluster::on_watcher(std::function<Status()> work) {
  Request request{std::move(work), {}, false};
  std::unique_lock lock(mutex_);
  is_held(mutex_);
  if (stopping_) return {Code::kCancelled, "no process is started any more"};
  if (std::this_thread::get_id() == watcher_.get_id()) {
    lock.unlock();
    return request.work();
  }
  requests_.push_back(&request);
  wake();
  answered_.wait(lock, [&]() OVERLORD_REQUIRES(mutex_) { return request.done; });
  return request.answer;
}

void ProcessCluster::serve_requests() {
  for (;;) {
    Request* request = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (requests_.empty()) return;
      request = requests_.front();
      requests_.pop_front();
    }
    Status answer = request->work();
    const std::lock_guard lock(mutex_);
    request->answer = std::move(answer);
    request->done = true;
    answered_.notify_all();
  }
}

Status ProcessCluster::spawn(const runtime::GroupPlacement& group) {
  {
    const std::lock_guard lock(mutex_);
    if (children_.contains(group.name)) {
      return internal_error(group.name + " is placed while it still lives");
    }
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_failure("cannot make a pipe", errno);
  runtime::Descriptor ours(ends[0]);
  runtime::Descriptor its(ends[1]);
  fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  workers::SpawnSettings settings;
  int error = connect(&settings, its.get(), options_.job_descriptor);
  if (error != 0) return system_failure("cannot prepare a process", error);
  std::vector<std::string> texts;
  for (const std::string& argument : options_.arguments) texts.push_back(filled(argument, group));
  std::vector<char*> arguments;
  for (std::string& text : texts) arguments.push_back(text.data());
  arguments.push_back(nullptr);
  pid_t pid = 0;
  error = posix_spawn(&pid, options_.executable.c_str(), &settings.actions, &settings.attributes,
                      arguments.data(), environ);
  if (error != 0) return system_failure("cannot start " + options_.executable, error);
  Child child;
  child.group = group;
  child.process = process_with(pid);
  child.handle = runtime::Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  child.output = std::move(ours);
  if (!child.handle.valid()) {
    const int refused = errno;
    ::kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return system_failure("cannot watch a process (pidfd_open)", refused);
  }
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) ::kill(pid, SIGKILL);  // stop() has killed those that it saw, not this one
    children_.emplace(group.name, std::move(child));
  }
  tell_changed();
  return {};
}

void ProcessCluster::kill(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = children_.find(name);
  if (found != children_.end()) kill_process(found->second.handle);
}

std::vector<runtime::GroupPlacement> ProcessCluster::placed() const {
  const std::lock_guard lock(mutex_);
  std::vector<runtime::GroupPlacement> out;
  for (const auto& [name, child] : children_) out.push_back(child.group);
  return out;
}

uint32_t ProcessCluster::process_of(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = children_.find(name);
  return found == children_.end() ? 0 : static_cast<uint32_t>(found->second.process.pid);
}

void ProcessCluster::run() {
  for (;;) {
    std::vector<pollfd> polled{{wake_.get(), POLLIN, 0}};
    {
      const std::lock_guard lock(mutex_);
      if (stopping_ && (children_.empty() || leaving_)) return;
      for (const auto& [name, child] : children_) {
        // An end that nobody would hear of waits: what was adopted may end before it is watched.
        const bool told = ended_ || stopping_;
        polled.push_back({told ? child.handle.get() : -1, POLLIN, 0});
        polled.push_back({child.output.valid() ? child.output.get() : -1, POLLIN, 0});
      }
    }
    if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    if (polled[0].revents != 0) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = read(wake_.get(), &count, sizeof(count));
    }
    look_at_children(polled);
    serve_requests();
  }
}

// Only this thread adds and removes children, so they lie as they did when `polled` was made.
void ProcessCluster::look_at_children(const std::vector<pollfd>& polled) {
  std::vector<std::string> over;
  size_t at = 1;
  for (auto& [name, child] : children_) {
    if (at + 1 >= polled.size()) break;
    if (polled[at + 1].revents != 0) read_output(&child);
    if (polled[at].revents != 0) over.push_back(name);
    at += 2;
  }
  for (const std::string& name : over) reap(name);
}

void ProcessCluster::read_output(Child* child) {
  char data[4096];
  for (;;) {
    const ssize_t got = read(child->output.get(), data, sizeof(data));
    if (got > 0) {
      take_lines(child, data, static_cast<size_t>(got));
      continue;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) child->output.reset();
    return;
  }
}

void ProcessCluster::take_lines(Child* child, const char* data, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    if (data[i] != '\n') {
      if (child->line.size() < kLineBytes) child->line.push_back(data[i]);
      continue;
    }
    if (options_.printed) options_.printed(child->group.name, child->line);
    child->last_words.push_back(std::move(child->line));
    if (child->last_words.size() > kWordsKept) child->last_words.pop_front();
    child->line.clear();
  }
}

void ProcessCluster::reap(const std::string& name) {
  Child child;
  Ended ended;
  {
    const std::lock_guard lock(mutex_);
    const auto found = children_.find(name);
    child = std::move(found->second);
    children_.erase(found);
    if (!stopping_) ended = ended_;
  }
  if (child.output.valid()) read_output(&child);
  runtime::GroupEnd end{name, child.group.generation, "nobody to tell how", {}, false};
  if (!child.adopted) {
    int status = 0;
    waitpid(static_cast<pid_t>(child.process.pid), &status, 0);
    end.how = describe_end(status);
    end.by_itself = WIFEXITED(status);
  }
  for (const std::string& line : child.last_words) {
    end.last_words += (end.last_words.empty() ? "" : "\n") + line;
  }
  if (!ended) return;  // it is being stopped
  tell_changed();
  ended(end);
}

void ProcessCluster::stop() { end(/*kill_all=*/true); }

void ProcessCluster::leave() { end(/*kill_all=*/false); }

void ProcessCluster::end(bool kill_all) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ && !watcher_.joinable()) return;
    stopping_ = true;
    leaving_ = !kill_all;
    for (const auto& [name, child] : children_) {
      if (kill_all) kill_process(child.handle);
    }
    for (Request* request : requests_) {
      request->answer = Status(Code::kCancelled, "no process is started any more");
      request->done = true;
    }
    requests_.clear();
    answered_.notify_all();
  }
  wake();
  if (watcher_.joinable()) watcher_.join();
}

}  // namespace overlord::node
