#include "overlord/transport/unix_link.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include "overlord/runtime/steady_clock.h"
#include "overlord/transport/link_inbox_test.h"
#include "overlord/transport/temporary_base_test.h"
#include "overlord/transport/unix_listener.h"

namespace overlord::transport {
namespace {

int64_t before_long() { return runtime::steady_now_ns() + 30'000'000'000; }

runtime::Bytes bytes_of(size_t size, char seed) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(seed + i * 31 / 7);
  return runtime::Bytes::copy_of(text);
}

// Two ends of one socket, both links of this process unless one is taken raw.
class UnixLinkTest : public testing::Test {
 protected:
  void SetUp() override {
    auto thread = LoopThread::start();
    ASSERT_TRUE(thread.ok()) << thread.status().message();
    thread_ = std::move(*thread);
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    ours_ = runtime::Descriptor(sockets[0]);
    theirs_ = runtime::Descriptor(sockets[1]);
  }
  std::shared_ptr<UnixLink> adopt(runtime::Descriptor socket, LinkInbox& inbox,
                                  LinkOptions options = {}) {
    auto link = UnixLink::adopt(thread_->loop(), std::move(socket), std::move(options),
                                [&inbox](UnixLink&) { return inbox.callbacks(); });
    EXPECT_TRUE(link.ok()) << link.status().message();
    return *link;
  }
  void say(const std::string& bytes) {
    ASSERT_EQ(::send(theirs_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  LinkInbox our_inbox_, their_inbox_;  // outlive the loop, which still tells them of its end
  std::unique_ptr<LoopThread> thread_;
  runtime::Descriptor ours_, theirs_;
};

TEST_F(UnixLinkTest, CarriesFramesOfEverySizeInOrder) {
  auto a = adopt(std::move(ours_), our_inbox_);
  auto b = adopt(std::move(theirs_), their_inbox_);
  const std::vector<size_t> sizes = {0,         1, 15, 16, 4096,    65519, 65520,    65521, 300'000,
                                     1'000'000, 0, 7,  3,  9999999, 12,    64 << 20, 1};
  std::vector<runtime::Bytes> sent;
  for (size_t i = 0; i < sizes.size(); ++i) {
    sent.push_back(bytes_of(sizes[i], static_cast<char>(i)));
    // In pieces, some of them empty.
    const size_t cut = sizes[i] / 3;
    ASSERT_TRUE(a->send({{{sent[i].holder, sent[i].data, cut},
                          {sent[i].holder, sent[i].data, 0},
                          {sent[i].holder, sent[i].data + cut, sizes[i] - cut}},
                         {}})
                    .ok());
  }
  ASSERT_TRUE(their_inbox_.wait_frames(sizes.size()));
  for (size_t i = 0; i < sizes.size(); ++i) {
    const runtime::Bytes& got = their_inbox_.frames[i].payload;
    ASSERT_EQ(got.size, sizes[i]);
    EXPECT_TRUE(got.size == 0 || std::memcmp(got.data, sent[i].data, got.size) == 0) << i;
  }
  ASSERT_TRUE(b->send("back").ok());
  ASSERT_TRUE(our_inbox_.wait_frames(1));
  EXPECT_EQ(our_inbox_.text(0), "back");
  EXPECT_EQ(a->stats().frames_sent, sizes.size());
  EXPECT_EQ(a->stats().queued_bytes, 0u);
  EXPECT_EQ(a->stats().bytes_sent, b->stats().bytes_received);
}

TEST_F(UnixLinkTest, PassesDescriptorsWithTheirFrames) {
  auto a = adopt(std::move(ours_), our_inbox_);
  auto b = adopt(std::move(theirs_), their_inbox_);
  constexpr size_t kFrames = 200;
  for (size_t i = 0; i < kFrames; ++i) {
    OutgoingFrame frame;
    frame.pieces = {runtime::Bytes::copy_of(std::string(i * 100, 'x'))};
    for (size_t k = 0; k < i % 4; ++k) {
      auto file = std::make_shared<const runtime::Descriptor>(memfd_create("passed", MFD_CLOEXEC));
      const std::string text = std::to_string(i) + "/" + std::to_string(k);
      ASSERT_EQ(write(file->get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
      frame.descriptors.push_back(std::move(file));
    }
    ASSERT_TRUE(a->send(std::move(frame)).ok());
  }
  ASSERT_TRUE(their_inbox_.wait_frames(kFrames));
  for (size_t i = 0; i < kFrames; ++i) {
    const ReceivedFrame& frame = their_inbox_.frames[i];
    EXPECT_EQ(frame.payload.size, i * 100);
    ASSERT_EQ(frame.descriptors.size(), i % 4);
    for (size_t k = 0; k < frame.descriptors.size(); ++k) {
      char text[32] = {};
      ASSERT_GT(pread(frame.descriptors[k].get(), text, sizeof(text) - 1, 0), 0);
      EXPECT_EQ(std::string(text), std::to_string(i) + "/" + std::to_string(k));
      EXPECT_NE(fcntl(frame.descriptors[k].get(), F_GETFD) & FD_CLOEXEC, 0);
    }
  }
}

TEST_F(UnixLinkTest, KeepsTheOrderOfEachOfManySenders) {
  auto a = adopt(std::move(ours_), our_inbox_);
  auto b = adopt(std::move(theirs_), their_inbox_);
  constexpr size_t kThreads = 4, kEach = 3000;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&a, t] {
      for (size_t i = 0; i < kEach; ++i) {
        ASSERT_TRUE(a->send(std::to_string(t) + ":" + std::to_string(i)).ok());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  ASSERT_TRUE(their_inbox_.wait_frames(kThreads * kEach));
  size_t next[kThreads] = {};
  for (size_t i = 0; i < kThreads * kEach; ++i) {
    const std::string text = their_inbox_.text(i);
    const size_t t = static_cast<size_t>(text[0] - '0');
    EXPECT_EQ(text.substr(2), std::to_string(next[t]++));
  }
}

TEST_F(UnixLinkTest, CountsWhatWaitsAndRefusesBeyondTheLimit) {
  LinkOptions options;
  options.queue_limit_bytes = 1 << 20;
  auto a = adopt(std::move(ours_), our_inbox_, options);
  size_t accepted = 0;
  Status status;
  const runtime::Bytes payload = bytes_of(100'000, 1);
  while (status.ok() && accepted < 1000) {  // nobody reads at the other end
    status = a->send({{payload}, {}});
    accepted += status.ok();
  }
  EXPECT_EQ(status.code(), Code::kResource);
  EXPECT_NE(status.message().find("1048576"), std::string::npos) << status.message();
  EXPECT_LE(a->stats().queued_bytes, options.queue_limit_bytes);
  EXPECT_GT(a->stats().queued_bytes, options.queue_limit_bytes / 2);
  EXPECT_EQ(a->stats().refused_count, 1u);
  auto b = adopt(std::move(theirs_), their_inbox_);
  ASSERT_TRUE(their_inbox_.wait_frames(accepted));  // what was accepted arrives all the same
  EXPECT_EQ(a->stats().queued_bytes, 0u);
  EXPECT_GT(a->stats().queued_bytes_peak, options.queue_limit_bytes / 2);
}

TEST_F(UnixLinkTest, ManyWaitingFramesGoWithFewCalls) {
  auto a = adopt(std::move(ours_), our_inbox_);
  const runtime::Bytes large = bytes_of(4 << 20, 1);
  ASSERT_TRUE(a->send({{large}, {}}).ok());  // fills the socket, so the rest waits
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(a->send("small").ok());
  auto b = adopt(std::move(theirs_), their_inbox_);
  ASSERT_TRUE(their_inbox_.wait_frames(5001));
  EXPECT_LT(a->stats().write_calls, 1000u);
}

TEST_F(UnixLinkTest, GarbageEndsTheLinkAndIsNamed) {
  LinkOptions options;
  options.name = "rank 7";
  auto a = adopt(std::move(ours_), our_inbox_, options);
  const FrameHead head = frame_head(0, 2);
  say(std::string(head.data(), head.size()) + "ok" + "now for something completely different");
  ASSERT_TRUE(our_inbox_.wait_end());
  EXPECT_EQ(our_inbox_.ends[0].code(), Code::kBadData);
  EXPECT_NE(our_inbox_.ends[0].message().find("rank 7"), std::string::npos);
  ASSERT_EQ(our_inbox_.frames.size(), 1u);
  EXPECT_EQ(our_inbox_.text(0), "ok");
  EXPECT_EQ(a->send("more").code(), Code::kUnavailable);
  char byte;
  EXPECT_LE(recv(theirs_.get(), &byte, 1, 0), 0);  // it is really closed
}

TEST_F(UnixLinkTest, AFrameLargerThanAllowedIsGarbage) {
  LinkOptions options;
  options.max_frame_bytes = 1000;
  auto a = adopt(std::move(ours_), our_inbox_, options);
  EXPECT_EQ(a->send({{bytes_of(1001, 1)}, {}}).code(), Code::kInvalidArgument);
  const FrameHead head = frame_head(0, uint64_t{1} << 60);
  say(std::string(head.data(), head.size()));
  ASSERT_TRUE(our_inbox_.wait_end());
  EXPECT_EQ(our_inbox_.ends[0].code(), Code::kBadData);
}

TEST_F(UnixLinkTest, DescriptorsThatWereNotAnnouncedAreGarbage) {
  auto a = adopt(std::move(ours_), our_inbox_);
  const FrameHead head = frame_head(0, 0);
  iovec piece = {const_cast<char*>(head.data()), head.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  CMSG_FIRSTHDR(&message)->cmsg_level = SOL_SOCKET;
  CMSG_FIRSTHDR(&message)->cmsg_type = SCM_RIGHTS;
  CMSG_FIRSTHDR(&message)->cmsg_len = CMSG_LEN(sizeof(int));
  const int number = theirs_.get();
  std::memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &number, sizeof(number));
  ASSERT_GT(sendmsg(theirs_.get(), &message, MSG_NOSIGNAL), 0);
  ASSERT_TRUE(our_inbox_.wait_end());
  EXPECT_EQ(our_inbox_.ends[0].code(), Code::kBadData);
  EXPECT_NE(our_inbox_.ends[0].message().find("not announced"), std::string::npos);
}

TEST_F(UnixLinkTest, AHangUpIsToldOnceWithWhatCameBefore) {
  auto a = adopt(std::move(ours_), our_inbox_);
  const FrameHead head = frame_head(0, 100);
  say(std::string(head.data(), head.size()) + "half");
  theirs_.reset();
  ASSERT_TRUE(our_inbox_.wait_end());
  EXPECT_EQ(our_inbox_.ends[0].code(), Code::kUnavailable);
  EXPECT_NE(our_inbox_.ends[0].message().find("middle of a frame"), std::string::npos);
  a->close();
  a->finish();
  thread_.reset();
  EXPECT_EQ(our_inbox_.ends.size(), 1u);
  EXPECT_TRUE(our_inbox_.frames.empty());
}

TEST_F(UnixLinkTest, FinishSendsWhatWaitsAndCloseDoesNot) {
  auto a = adopt(std::move(ours_), our_inbox_);
  const runtime::Bytes large = bytes_of(8 << 20, 1);
  ASSERT_TRUE(a->send({{large}, {}}).ok());
  ASSERT_TRUE(a->send("goodbye").ok());
  a->finish();
  EXPECT_EQ(a->send("too late").code(), Code::kUnavailable);
  auto b = adopt(std::move(theirs_), their_inbox_);
  ASSERT_TRUE(their_inbox_.wait_end());
  ASSERT_EQ(their_inbox_.frames.size(), 2u);
  EXPECT_EQ(their_inbox_.text(1), "goodbye");
  EXPECT_EQ(their_inbox_.ends[0].code(), Code::kUnavailable);
  ASSERT_TRUE(our_inbox_.wait_end());
  EXPECT_EQ(our_inbox_.ends[0].code(), Code::kCancelled);
}

TEST_F(UnixLinkTest, TheEndOfTheLoopEndsItsLinks) {
  auto a = adopt(std::move(ours_), our_inbox_);
  thread_.reset();
  ASSERT_EQ(our_inbox_.ends.size(), 1u);
  EXPECT_EQ(our_inbox_.ends[0].code(), Code::kCancelled);
  EXPECT_EQ(a->send("x").code(), Code::kUnavailable);
  a->close();
  EXPECT_EQ(our_inbox_.ends.size(), 1u);
  EXPECT_FALSE(a->stats().queued_bytes);
}

TEST_F(UnixLinkTest, AForkedProcessIsToldRatherThanHung) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer ends a process that was forked beside threads";
#endif
  auto a = adopt(std::move(ours_), our_inbox_);
  ASSERT_TRUE(a->send("from the parent").ok());
  const pid_t child = fork();
  if (child == 0) {
    const bool told = a->send("from the child").code() == Code::kInvalidArgument;
    thread_.reset();  // must not wait for a thread that is not there
    _exit(told ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  ASSERT_TRUE(a->send("still here").ok());
  auto b = adopt(std::move(theirs_), their_inbox_);
  ASSERT_TRUE(their_inbox_.wait_frames(2));
}

class UnixListenerTest : public testing::Test {
 protected:
  // Forks come before the loop's thread.
  void start(ListenOptions options = {}) {
    thread_ = std::move(*LoopThread::start());
    directory_ = std::make_unique<SocketDirectory>(*SocketDirectory::make(base_.path("d")));
    lock_ = std::make_unique<DirectoryLock>(*directory_->lock(before_long()));
    auto listener = UnixListener::listen(thread_->loop(), *directory_, &*lock_, std::move(options),
                                         [this](UnixLink&) { return inbox_.callbacks(); });
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    listener_ = *listener;
  }
  ConnectRequest request() const { return {base_.path("d"), "node", before_long(), true}; }
  bool wait_stats(const std::function<bool(const ListenStats&)>& done) {
    const int64_t deadline_ns = before_long();
    while (!done(listener_->stats())) {
      if (runtime::steady_now_ns() > deadline_ns) return false;
      poll(nullptr, 0, 1);
    }
    return true;
  }

  TemporaryBase base_;
  LinkInbox inbox_, client_inbox_;
  std::unique_ptr<SocketDirectory> directory_;
  std::unique_ptr<DirectoryLock> lock_;
  std::unique_ptr<LoopThread> thread_;
  std::shared_ptr<UnixListener> listener_;
};

TEST_F(UnixListenerTest, AcceptsAndRemovesItsSocket) {
  start();
  auto client =
      UnixLink::connect(thread_->loop(), request(), {"the node"}, client_inbox_.callbacks());
  ASSERT_TRUE(client.ok()) << client.status().message();
  EXPECT_EQ((*client)->peer().pid, getpid());
  ASSERT_TRUE((*client)->send("hello").ok());
  ASSERT_TRUE(inbox_.wait_frames(1));
  EXPECT_EQ(inbox_.text(0), "hello");
  listener_->close();
  EXPECT_FALSE(std::filesystem::exists(base_.path("d/node")));
  ConnectRequest again = request();
  again.wait_for_listener = false;
  EXPECT_EQ(UnixLink::connect(thread_->loop(), again, {}, {}).status().code(), Code::kUnavailable);
  ASSERT_TRUE((*client)->send("still here").ok());
  ASSERT_TRUE(inbox_.wait_frames(2));
  (*client)->close();
  ASSERT_TRUE(wait_stats([](const ListenStats& stats) { return stats.open_links == 0; }));
  EXPECT_EQ(listener_->stats().accepted_count, 1u);
}

TEST_F(UnixListenerTest, ALeftoverSocketIsReplacedAndAFileIsNot) {
  {
    start();
    ASSERT_EQ(rename(base_.path("d/node").c_str(), base_.path("d/old").c_str()), 0);
    thread_.reset();
    listener_.reset();
    lock_.reset();
  }
  ASSERT_EQ(rename(base_.path("d/old").c_str(), base_.path("d/node").c_str()), 0);
  ConnectRequest now = request();
  now.wait_for_listener = false;
  auto other = std::move(*LoopThread::start());
  EXPECT_EQ(UnixLink::connect(other->loop(), now, {}, {}).status().code(), Code::kUnavailable);
  start();
  EXPECT_TRUE(UnixLink::connect(thread_->loop(), now, {}, {}).ok());
  ListenOptions file;
  file.socket = "lock";
  EXPECT_EQ(
      UnixListener::listen(thread_->loop(), *directory_, &*lock_, file, nullptr).status().code(),
      Code::kInvalidArgument);
}

TEST_F(UnixListenerTest, ConnectWaitsForTheListenerUpToItsDeadline) {
  auto other = std::move(*LoopThread::start());
  ConnectRequest late = request();
  late.deadline_ns = runtime::steady_now_ns() + 20'000'000;
  EXPECT_EQ(UnixLink::connect(other->loop(), late, {}, {}).status().code(), Code::kDeadline);
  std::thread starter([this] { start(); });
  const auto link = UnixLink::connect(other->loop(), request(), {}, {});
  starter.join();
  EXPECT_TRUE(link.ok()) << link.status().message();
  ASSERT_EQ(chmod(base_.path("d").c_str(), 0755), 0);
  EXPECT_EQ(UnixLink::connect(other->loop(), request(), {}, {}).status().code(),
            Code::kInvalidArgument);
}

TEST_F(UnixListenerTest, CountsAndNamesGarbage) {
  ListenOptions options;
  options.link.name = "rank";
  start(options);
  for (uint64_t i = 1; i <= 3; ++i) {
    const runtime::Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    base_.path("d/node").copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(send(socket.get(), "0123456789abcdef", 16, MSG_NOSIGNAL), 16);
    ASSERT_TRUE(wait_stats([i](const ListenStats& stats) { return stats.garbage_count == i; }));
  }
  EXPECT_NE(listener_->stats().last_garbage.find("rank 3"), std::string::npos)
      << listener_->stats().last_garbage;
  auto good = UnixLink::connect(thread_->loop(), request(), {}, {});
  ASSERT_TRUE(good.ok());  // nobody else notices
  ASSERT_TRUE((*good)->send("good").ok());
  ASSERT_TRUE(inbox_.wait_frames(1));
}

TEST_F(UnixListenerTest, HoldsItsLimitOfLinks) {
  ListenOptions options;
  options.max_links = 2;
  start(options);
  std::vector<std::shared_ptr<UnixLink>> links;
  for (int i = 0; i < 3; ++i) {
    links.push_back(*UnixLink::connect(thread_->loop(), request(), {}, client_inbox_.callbacks()));
  }
  ASSERT_TRUE(client_inbox_.wait_end());
  EXPECT_EQ(listener_->stats().refused_full, 1u);
  EXPECT_EQ(listener_->stats().open_links, 2u);
}

TEST_F(UnixListenerTest, RefusesProcessesOfOtherUsers) {
  EXPECT_EQ(check_same_user({1, geteuid() + 1}).code(), Code::kInvalidArgument);
  EXPECT_TRUE(check_same_user({1, geteuid()}).ok());
  if (geteuid() != 0) GTEST_SKIP() << "only root can play another user";
  int go[2];
  ASSERT_EQ(pipe2(go, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {  // another user who got past the directory's mode
    char byte;
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    base_.path("d/node").copy(address.sun_path, sizeof(address.sun_path) - 1);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    const bool connected =
        read(go[0], &byte, 1) == 1 && setresuid(65534, 65534, 65534) == 0 &&
        connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    const bool dropped = recv(socket, &byte, 1, 0) <= 0;
    _exit(connected && dropped ? 0 : 1);
  }
  start();
  ASSERT_EQ(chmod(base_.path().c_str(), 0777), 0);
  ASSERT_EQ(chmod(base_.path("d").c_str(), 0777), 0);
  ASSERT_EQ(chmod(base_.path("d/node").c_str(), 0777), 0);
  ASSERT_EQ(write(go[1], "x", 1), 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(listener_->stats().refused_users, 1u);
  EXPECT_EQ(listener_->stats().accepted_count, 0u);
  close(go[0]);
  close(go[1]);
}

// A trainer's forked data workers keep its socket open: its death must be noticed all the same.
TEST_F(UnixListenerTest, SeesADeathBehindASocketThatStaysOpen) {
  int held[2];
  ASSERT_EQ(pipe2(held, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(held[1]);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    base_.path("d/node").copy(address.sun_path, sizeof(address.sun_path) - 1);
    while (connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      poll(nullptr, 0, 1);
    }
    if (fork() == 0) {  // holds the socket until the test is over
      char byte;
      _exit(read(held[0], &byte, 1) == 0 ? 0 : 1);
    }
    const FrameHead head = frame_head(0, 0);
    _exit(send(socket, head.data(), head.size(), 0) > 0 ? 0 : 1);
  }
  start();
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(inbox_.wait_end());
  EXPECT_EQ(inbox_.frames.size(), 1u);  // what it said before is not lost
  EXPECT_NE(inbox_.ends[0].message().find("died"), std::string::npos) << inbox_.ends[0].message();
  close(held[0]);
  close(held[1]);
}

}  // namespace
}  // namespace overlord::transport
