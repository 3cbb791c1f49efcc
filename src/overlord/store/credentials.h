// Who asks a store, by reference: the environment, a profile, or a role that a service of the
// platform gives keys for. Looked up again before they expire, and when a store refuses them.
// Nothing here is ever put into a message, a digest or a state.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "overlord/base/status.h"

namespace overlord::store {

class HttpClient;

struct Credentials {
  std::string access_key;  // empty: requests are not signed, as public buckets allow
  std::string secret_key;
  std::string session_token;

  friend bool operator==(const Credentials&, const Credentials&) = default;
};

class CredentialSource {
 public:
  using Done = std::function<void(Result<Credentials>)>;

  virtual ~CredentialSource() = default;
  // Told before anything else, by the store that asks. Its thread calls back.
  virtual void use(HttpClient*) {}
  // Calls back at once, or later on a thread of the store. `refused`: what the store does not take
  // any more, and is not given again where there is something else.
  virtual void get(const std::optional<Credentials>& refused, Done done) = 0;
};

// For stores that are asked without a name, and for tests.
class FixedCredentials final : public CredentialSource {
 public:
  explicit FixedCredentials(Credentials credentials) : credentials_(std::move(credentials)) {}
  void get(const std::optional<Credentials>&, Done done) override { done(credentials_); }

 private:
  const Credentials credentials_;
};

// AWS_ACCESS_KEY_ID with its companions, then the profile (`profile`, else AWS_PROFILE, else
// "default") of the credentials and config files of AWS tools; nothing where there is neither.
Result<std::optional<Credentials>> find_credentials(const std::string& profile);

// A key of a profile in the files of AWS tools; empty when it is not there. Sections of the config
// file are called "profile NAME".
std::string profile_value(const std::string& profile, const std::string& key);
std::string profile_name(const std::string& asked);

}  // namespace overlord::store
