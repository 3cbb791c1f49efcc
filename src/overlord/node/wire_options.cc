#include "overlord/node/wire_options.h"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace overlord::node {
namespace {

Result<std::string> read_file(const std::string& path, bool secret) {
  if (path.empty()) return std::string();
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return not_found("wire: no file " + path);
  if (secret && (info.st_mode & 077) != 0) {
    return invalid_argument("wire: " + path + " can be read by others; chmod 600 it");
  }
  std::ifstream file(path, std::ios::binary);
  return std::string{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Result<std::string> read_token(const std::string& reference) {
  if (reference.empty()) return std::string();
  if (reference.starts_with("env:")) {
    const char* value = std::getenv(reference.c_str() + 4);
    if (value == nullptr || *value == '\0') {
      return not_found("wire.token: the environment has no " + reference.substr(4));
    }
    return std::string(value);
  }
  if (!reference.starts_with("file:")) {
    return invalid_argument("wire.token: a reference env:NAME or file:PATH is needed");
  }
  OVERLORD_TRY(std::string token, read_file(reference.substr(5), true));
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  return token;
}

}  // namespace

std::vector<std::string> WireOptions::words() const {
  std::vector<std::string> out;
  for (const auto& [key, value] : {std::pair<std::string, std::string>{"wire.lead", lead},
                                   {"wire.at", at},
                                   {"wire.bind", bind},
                                   {"wire.certificate", certificate},
                                   {"wire.key", private_key},
                                   {"wire.authority", authority},
                                   {"wire.token", token}}) {
    if (!value.empty()) out.push_back(key + "=" + value);
  }
  if (leads) out.push_back("wire.leads=1");
  if (joined) out.push_back("wire.joined=1");
  return out;
}

bool WireOptions::take(const std::string& key, const std::string& value) {
  if (key == "wire.lead")
    lead = value;
  else if (key == "wire.at")
    at = value;
  else if (key == "wire.bind")
    bind = value;
  else if (key == "wire.certificate")
    certificate = value;
  else if (key == "wire.key")
    private_key = value;
  else if (key == "wire.authority")
    authority = value;
  else if (key == "wire.token")
    token = value;
  else if (key == "wire.leads")
    leads = value == "1";
  else if (key == "wire.joined")
    joined = value == "1";
  else
    return false;
  return true;
}

transport::WireLimits wire_limits(const WireOptions& options) {
  transport::WireLimits out;
  if (options.in_turn()) out.call_ns = 2'000'000'000;
  return out;
}

Result<transport::WireSecurity> read_security(const WireOptions& options) {
  transport::WireSecurity out;
  OVERLORD_TRY(out.certificate, read_file(options.certificate, false));
  OVERLORD_TRY(out.private_key, read_file(options.private_key, true));
  OVERLORD_TRY(out.authority, read_file(options.authority, false));
  OVERLORD_TRY(out.token, read_token(options.token));
  return out;
}

}  // namespace overlord::node
