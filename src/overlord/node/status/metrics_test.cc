// A node's figures as text, and the door they are served at.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>

#include "overlord/node/status/metrics_door.h"
#include "overlord/node/status/metrics_text.h"

namespace overlord::node {
namespace {

TEST(MetricText, NamesAreToldOnceAndOddLabelsAreEscaped) {
  const MetricText::Labels odd = {{"job", "a \"b\"\\c\nd"}};
  MetricText out(odd);
  out.add("x", MetricText::Kind::kGauge, "Something odd", 3, {{"source", "s"}});
  out.add_seconds("y_seconds_total", "Time", 1'500'000'000);
  out.add("x", MetricText::Kind::kGauge, "Something odd", 4);
  EXPECT_EQ(out.text(),
            "# HELP x Something odd.\n# TYPE x gauge\n"
            "x{job=\"a \\\"b\\\"\\\\c\\nd\",source=\"s\"} 3\n"
            "x{job=\"a \\\"b\\\"\\\\c\\nd\"} 4\n"
            "# HELP y_seconds_total Time.\n# TYPE y_seconds_total counter\n"
            "y_seconds_total{job=\"a \\\"b\\\"\\\\c\\nd\"} 1.500000000\n");
}

TEST(MetricsDoor, NothingBeyondThisHostIsOpened) {
  for (const char* address : {"0.0.0.0:0", "10.0.0.1:9400", "[::]:0", "some.host:1", ":9", "9"}) {
    const auto door = MetricsDoor::open({false, address}, "", [] { return "x"; });
    EXPECT_EQ(door.status().code(), Code::kInvalidArgument) << address;
  }
}

// Invalid when it cannot connect within ten seconds, or hears nothing for as long.
runtime::Descriptor caller_of(uint16_t port) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  runtime::Descriptor caller(socket(AF_INET, SOCK_STREAM, 0));
  const timeval patience{10, 0};
  setsockopt(caller.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  setsockopt(caller.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (connect(caller.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0)
    caller.reset();
  return caller;
}

// What a caller hears who says `request`.
std::string said_to(uint16_t port, const std::string& request) {
  const runtime::Descriptor caller = caller_of(port);
  if (!caller.valid()) return {};
  send(caller.get(), request.data(), request.size(), MSG_NOSIGNAL);
  shutdown(caller.get(), SHUT_WR);
  std::string heard;
  char bytes[512];
  for (ssize_t got = 0; (got = recv(caller.get(), bytes, sizeof bytes, 0)) > 0;) {
    heard.append(bytes, static_cast<size_t>(got));
  }
  return heard;
}

TEST(MetricsDoor, CallersGetTheFiguresAndNonsenseHurtsNobody) {
  std::atomic<bool> known = true;
  const auto door = MetricsDoor::open({false, "127.0.0.1:0"}, "", [&] {
    return known ? std::optional<std::string>("figures\n") : std::nullopt;
  });
  ASSERT_TRUE(door.ok()) << door.status().message();
  const uint16_t port = (*door)->port();
  for (const char* path : {"/", "/metrics", "/metrics?name=x"}) {
    const std::string heard = said_to(port, "GET " + std::string(path) + " HTTP/1.1\r\n\r\n");
    EXPECT_TRUE(heard.starts_with("HTTP/1.1 200 OK\r\n")) << heard;
    EXPECT_TRUE(heard.ends_with("\r\n\r\nfigures\n")) << heard;
  }
  EXPECT_TRUE(said_to(port, "GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
  EXPECT_TRUE(said_to(port, "POST / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400"));
  EXPECT_TRUE(said_to(port, std::string(5000, '\xff') + "\r\n\r\n").starts_with("HTTP/1.1 400"));
  said_to(port, std::string(200'000, '\xff'));
  EXPECT_EQ(said_to(port, "GET / HTT"), "");
  EXPECT_EQ(said_to(port, ""), "");
  known = false;
  EXPECT_TRUE(said_to(port, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503"));
}

// One after another they would take two seconds each: over a minute.
TEST(MetricsDoor, SilentCallersKeepNobodyOut) {
  const auto door = MetricsDoor::open({false, "127.0.0.1:0"}, "", [] { return "figures\n"; });
  ASSERT_TRUE(door.ok()) << door.status().message();
  const uint16_t port = (*door)->port();
  std::vector<runtime::Descriptor> silent;
  for (int i = 0; i < 40; ++i) {
    silent.push_back(caller_of(port));
    ASSERT_TRUE(silent.back().valid()) << i;
    if (i % 2 == 0) send(silent.back().get(), "GET /", 5, MSG_NOSIGNAL);
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(said_to(port, "GET / HTTP/1.1\r\n\r\n").ends_with("figures\n"));
  }
  // Whoever stays silent is let go.
  for (const runtime::Descriptor& one : silent) {
    char byte = 0;
    EXPECT_LE(recv(one.get(), &byte, 1, 0), 0);
  }
}

}  // namespace
}  // namespace overlord::node
