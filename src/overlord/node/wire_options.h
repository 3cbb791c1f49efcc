// WireOptions: how the node of one host reaches those of others, as its program is told. Secrets
// come by reference, never as words of a command line.
#pragma once

#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/transport/wire/wire.h"

namespace overlord::node {

struct WireOptions {
  std::string lead;  // HOST:PORT of the node that plans for all hosts; empty: this host is alone
  bool leads = false;
  bool joined = false;      // what is started here belongs to the lead of another host
  std::string bind;         // HOST:PORT that a role process listens on; empty: nowhere
  std::string certificate;  // files
  std::string private_key;
  std::string authority;
  std::string token;  // env:NAME or file:PATH

  bool several_hosts() const { return !lead.empty(); }
  // As words KEY=VALUE, and back. False for a word of somebody else.
  std::vector<std::string> words() const;
  bool take(const std::string& key, const std::string& value);
};

// Reads what the options refer to. A file that others may read is refused for keys and tokens.
Result<transport::WireSecurity> read_security(const WireOptions& options);

}  // namespace overlord::node
