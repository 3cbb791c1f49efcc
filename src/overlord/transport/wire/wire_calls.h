// The calls of the wire as bytes: what an action or a ticket holds. Every call after the first
// names its session.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "overlord/base/hash.h"
#include "overlord/base/status.h"

namespace overlord::transport {

inline constexpr std::string_view kOpenCall = "open";        // -> session
inline constexpr std::string_view kSendCall = "send";        // session, batch
inline constexpr std::string_view kTakeCall = "take";        // session, acknowledged, wait -> batch
inline constexpr std::string_view kReleaseCall = "release";  // session, bulk number
inline constexpr std::string_view kCloseCall = "close";      // session

struct WireCall {
  Digest session;
  uint64_t first = 0;   // take: acknowledged; release: number
  uint64_t second = 0;  // take: nanoseconds to wait
  std::string_view rest;
};

std::string encode_call(const WireCall& call);
Result<WireCall> decode_call(std::string_view bytes);  // `rest` points into `bytes`

// Which part of a large frame a connector pulls.
struct BulkTicket {
  Digest session;
  uint64_t number = 0;
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
};

std::string encode_ticket(const BulkTicket& ticket);
Result<BulkTicket> decode_ticket(std::string_view bytes);

// "host:port" or "[v6]:port" in two.
struct HostPort {
  std::string host;
  int port = 0;
};
Result<HostPort> parse_address(const std::string& address);

}  // namespace overlord::transport
