// WireOptions: how the node of one host reaches those of others, as its program is told. Secrets
// come by reference, never as words of a command line.
#pragma once

#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/transport/wire/wire.h"

namespace overlord::node {

struct WireOptions {
  // HOST:PORT of the node that plans for all hosts, or of all that may, in their order, with commas
  // between; empty: this host is alone.
  std::string lead;
  bool leads = false;
  bool joined = false;      // what is started here belongs to the lead of another host
  std::string bind;         // HOST:PORT that a role process listens on; empty: nowhere
  std::string certificate;  // files
  std::string private_key;
  std::string authority;
  std::string token;  // env:NAME or file:PATH
  std::string at;     // which of several addresses is this host's; empty: none

  bool several_hosts() const { return !lead.empty(); }
  // Where this host is called when it leads.
  const std::string& own() const { return at.empty() ? lead : at; }
  bool in_turn() const { return lead.find(',') != std::string::npos; }
  std::string first() const { return lead.substr(0, lead.find(',')); }
  // As words KEY=VALUE, and back. False for a word of somebody else.
  std::vector<std::string> words() const;
  bool take(const std::string& key, const std::string& value);
};

// Where one of several is called, those that are dead are not waited for as long.
transport::WireLimits wire_limits(const WireOptions& options);

// Reads what the options refer to. A file that others may read is refused for keys and tokens.
Result<transport::WireSecurity> read_security(const WireOptions& options);

}  // namespace overlord::node
