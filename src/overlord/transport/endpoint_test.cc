// Whom an endpoint reaches where a process may be at one of several addresses.
#include "overlord/transport/endpoint.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

namespace overlord::transport {
namespace endpoint_test {

// What endpoints have said, in its order.
class Words {
 public:
  void say(const std::string& word) {
    const std::lock_guard lock(mutex_);
    words_.push_back(word);
    said_.notify_all();
  }
  std::string next() {
    std::unique_lock lock(mutex_);
    said_.wait(lock, [this] { return !words_.empty(); });
    std::string word = words_.front();
    words_.pop_front();
    return word;
  }

 private:
  std::mutex mutex_;
  std::condition_variable said_;
  std::deque<std::string> words_;
};

class Host {
 public:
  Host(const std::string& name, Words& words, const Status& admits = {})
      : carrier_(carrier_options(name)) {
    EndpointOptions options;
    options.self.name = options.wire_name = name;
    options.pool = runtime::BufferPool::make(1 << 20);
    options.admit = [admits](const protocol::Hello&) { return admits; };
    options.connected = [&words, name](const protocol::Hello& hello) {
      words.say(name + " has " + hello.name);
    };
    options.lost = [&words, name](const std::string& peer) { words.say(name + " lost " + peer); };
    options.refused = [&words, name](const std::string&, const Status& why) {
      words.say(name + " refused: " + why.message());
    };
    endpoint_ = *Endpoint::open(std::move(options), &carrier_);
  }
  ~Host() { endpoint_->close(); }

  std::string listen() { return *endpoint_->listen_wire("127.0.0.1:0"); }
  void call(const std::string& addresses) { endpoint_->call("lead", addresses); }

 private:
  static CarrierOptions carrier_options(const std::string& name) {
    CarrierOptions options;
    options.name = name;
    options.deliver = [](const protocol::Envelope&) {};
    return options;
  }

  Carrier carrier_;
  std::unique_ptr<Endpoint> endpoint_;
};

const Status kStandsBy(Code::kUnavailable, "does not lead");

TEST(EndpointAddresses, AreCalledInTurnUntilOneLeads) {
  Words words, of_others;
  Host other("joined", of_others, kStandsBy);
  auto lead = std::make_unique<Host>("lead", of_others);
  Host follower("host-0", words);
  const std::string nobody = "127.0.0.1:1", stands_by = other.listen(), leads = lead->listen();
  follower.call(nobody + "," + stands_by + "," + leads);
  EXPECT_EQ(words.next(), "host-0 has lead");
  lead.reset();
  EXPECT_EQ(words.next(), "host-0 lost lead");
  Host next("lead", of_others);
  follower.call(nobody + "," + stands_by + "," + leads + "," + next.listen());
  EXPECT_EQ(words.next(), "host-0 has lead");
}

TEST(EndpointAddresses, OneThatRefusesForAnotherReasonIsHeard) {
  Words words, of_others;
  Host lead("lead", of_others, Status(Code::kVersionMismatch, "another format"));
  Host follower("host-0", words);
  follower.call("127.0.0.1:1," + lead.listen());
  EXPECT_EQ(words.next(), "host-0 refused: another format");
}

TEST(EndpointAddresses, TheOnlyOneIsHeardWhateverItSays) {
  Words words, of_others;
  Host other("joined", of_others, kStandsBy);
  Host follower("host-0", words);
  follower.call(other.listen());
  EXPECT_EQ(words.next(), "host-0 refused: does not lead");
}

}  // namespace endpoint_test
}  // namespace overlord::transport
