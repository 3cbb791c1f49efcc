#include "overlord/transport/event_loop.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/runtime/thread_executor.h"

namespace overlord::transport {
namespace {

constexpr int kEventsPerTurn = 128;
constexpr size_t kScratchBytes = 256 << 10;
constexpr EventLoop::Token kWakeToken = 0;

}  // namespace

Status system_failure(const std::string& what, int error) {
  return {Code::kResource, "cannot " + what + ": " + std::generic_category().message(error)};
}

EventLoop::EventLoop(runtime::Descriptor epoll, runtime::Descriptor wake)
    : epoll_(std::move(epoll)), wake_(std::move(wake)), pid_(getpid()), scratch_(kScratchBytes) {}

EventLoop::~EventLoop() = default;

Result<std::shared_ptr<EventLoop>> EventLoop::make() {
  runtime::Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return system_failure("make an epoll descriptor", errno);
  runtime::Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return system_failure("make an event descriptor", errno);
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = kWakeToken;
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0) {
    return system_failure("watch an event descriptor", errno);
  }
  return std::shared_ptr<EventLoop>(new EventLoop(std::move(epoll), std::move(wake)));
}

bool EventLoop::on_loop_thread() const { return thread_.load() == std::this_thread::get_id(); }

bool EventLoop::in_forked_child() const { return getpid() != pid_; }

bool EventLoop::post(Task task) {
  {
    std::lock_guard lock(mutex_);
    if (finished_) return false;
    tasks_.push_back(std::move(task));
    if (std::exchange(awake_, true)) return true;
  }
  wake();
  return true;
}

void EventLoop::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

void EventLoop::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  post([] {});
}

Result<EventLoop::Token> EventLoop::watch(int descriptor, uint32_t events,
                                          std::shared_ptr<Watcher> watcher) {
  OVERLORD_CHECK(on_loop_thread(), "watch() outside the loop's thread");
  const Token token = ++last_token_;
  epoll_event event = {};
  event.events = events;
  event.data.u64 = token;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
    return system_failure("watch a descriptor", errno);
  }
  watches_.emplace(token, Watch{descriptor, std::move(watcher)});
  return token;
}

void EventLoop::change(Token token, uint32_t events) {
  const auto found = watches_.find(token);
  if (found == watches_.end()) return;
  epoll_event event = {};
  event.events = events;
  event.data.u64 = token;
  const int answer = epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, found->second.descriptor, &event);
  OVERLORD_CHECK(answer == 0, "a watched descriptor was closed");
}

void EventLoop::unwatch(Token token) {
  const auto found = watches_.find(token);
  if (found == watches_.end()) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.descriptor, nullptr);
  // The watcher may be the last to hold itself: it goes after the map is whole again.
  const Watch gone = std::move(found->second);
  watches_.erase(found);
}

void EventLoop::run() {
  thread_.store(std::this_thread::get_id());
  epoll_event events[kEventsPerTurn];
  while (true) {
    {
      std::lock_guard lock(mutex_);
      if (stopping_) break;
    }
    const int count = epoll_wait(epoll_.get(), events, kEventsPerTurn, -1);
    OVERLORD_CHECK(count >= 0 || errno == EINTR, "epoll_wait failed");
    {
      std::lock_guard lock(mutex_);
      awake_ = true;  // whoever posts from here on is served by this turn
    }
    for (int i = 0; i < count; ++i) {
      const Token token = events[i].data.u64;
      if (token == kWakeToken) {
        uint64_t value = 0;
        [[maybe_unused]] const ssize_t taken = read(wake_.get(), &value, sizeof(value));
        continue;
      }
      const auto found = watches_.find(token);
      if (found == watches_.end()) continue;  // ended earlier in this turn
      const std::shared_ptr<Watcher> watcher = found->second.watcher;
      watcher->ready(events[i].events);
    }
    if (run_tasks()) wake();
  }
  finish();
}

// Runs what was posted up to now. What these tasks post waits for the next turn, so that a task
// that posts itself again does not keep the descriptors waiting; true when there is such.
bool EventLoop::run_tasks() {
  std::vector<Task> tasks;
  {
    std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (Task& task : tasks) std::exchange(task, nullptr)();
  std::lock_guard lock(mutex_);
  awake_ = !tasks_.empty();
  return awake_;
}

// Tasks that are already here may begin a watch, and watchers that are stopped may post: both are
// served until neither is left, so that every watcher is told of the end.
void EventLoop::finish() {
  while (true) {
    run_tasks();
    while (!watches_.empty()) {
      const Token token = watches_.begin()->first;
      const std::shared_ptr<Watcher> watcher = watches_.begin()->second.watcher;
      unwatch(token);
      watcher->stopped();
    }
    std::lock_guard lock(mutex_);
    if (!tasks_.empty()) continue;
    finished_ = true;
    return;
  }
}

Result<std::unique_ptr<LoopThread>> LoopThread::start(const std::string& thread_name) {
  OVERLORD_TRY(std::shared_ptr<EventLoop> loop, EventLoop::make());
  std::unique_ptr<LoopThread> owner(new LoopThread(std::move(loop)));
  try {
    owner->thread_ = std::thread([shared = owner->loop_] { shared->run(); });
  } catch (const std::system_error&) {
    return runtime::no_thread("waiting for other processes");
  }
  pthread_setname_np(owner->thread_.native_handle(), thread_name.substr(0, 15).c_str());
  return owner;
}

LoopThread::~LoopThread() {
  if (!thread_.joinable()) return;
  if (loop_->in_forked_child()) {  // the thread stayed with our parent: joining it would hang
    thread_.detach();
    return;
  }
  OVERLORD_CHECK(!loop_->on_loop_thread(), "a loop's thread cannot end itself");
  loop_->stop();
  thread_.join();
}

}  // namespace overlord::transport
