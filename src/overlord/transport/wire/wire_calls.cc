#include "overlord/transport/wire/wire_calls.h"

#include <charconv>

#include "overlord/base/bytes.h"
#include "overlord/transport/wire/wire.h"

namespace overlord::transport {
namespace {

constexpr uint32_t kWireMagic = 0x31575644;  // "DVW1": another version is another magic

}  // namespace

std::string encode_call(const WireCall& call) {
  ByteWriter writer;
  writer.u32(kWireMagic);
  writer.digest(call.session);
  writer.varint(call.first);
  writer.varint(call.second);
  writer.raw(call.rest.data(), call.rest.size());
  return writer.take();
}

Result<WireCall> decode_call(std::string_view bytes) {
  ByteReader reader(bytes);
  if (reader.u32() != kWireMagic) return bad_data("wire call: another version, or no call");
  WireCall call;
  call.session = reader.digest();
  call.first = reader.varint();
  call.second = reader.varint();
  OVERLORD_RETURN_IF_ERROR(reader.status("wire call", false));
  call.rest = bytes.substr(bytes.size() - reader.remaining());
  return call;
}

std::string encode_ticket(const BulkTicket& ticket) {
  ByteWriter writer;
  writer.u32(kWireMagic);
  writer.digest(ticket.session);
  writer.varint(ticket.number);
  writer.varint(ticket.offset);
  writer.varint(ticket.size_bytes);
  return writer.take();
}

Result<BulkTicket> decode_ticket(std::string_view bytes) {
  ByteReader reader(bytes);
  if (reader.u32() != kWireMagic) return bad_data("wire ticket: another version, or no ticket");
  BulkTicket ticket;
  ticket.session = reader.digest();
  ticket.number = reader.varint();
  ticket.offset = reader.varint();
  ticket.size_bytes = reader.varint();
  OVERLORD_RETURN_IF_ERROR(reader.status("wire ticket"));
  return ticket;
}

Result<HostPort> parse_address(const std::string& address) {
  const size_t colon = address.rfind(':');
  HostPort out;
  const char* begin = address.c_str() + (colon == std::string::npos ? 0 : colon + 1);
  const char* end = address.c_str() + address.size();
  const auto [stop, error] = std::from_chars(begin, end, out.port);
  if (colon == std::string::npos || colon == 0 || error != std::errc() || stop != end ||
      out.port < 0 || out.port > 65535) {
    return invalid_argument("address: HOST:PORT is needed, got '" + address + "'");
  }
  out.host = address.substr(0, colon);
  if (out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']') {
    out.host = out.host.substr(1, out.host.size() - 2);
  }
  return out;
}

Result<bool> is_loopback(const std::string& address) {
  OVERLORD_TRY(const HostPort parts, parse_address(address));
  return parts.host == "localhost" || parts.host == "::1" || parts.host.starts_with("127.");
}

}  // namespace overlord::transport
