// Who asks a store, by reference: the environment or a profile, read again when a store says that
// what was found has expired. Nothing here is ever put into a message, a digest or a state.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"

namespace overlord::store {

struct Credentials {
  std::string access_key;  // empty: requests are not signed, as public buckets allow
  std::string secret_key;
  std::string session_token;
};

class CredentialSource {
 public:
  using Done = std::function<void(Result<Credentials>)>;

  virtual ~CredentialSource() = default;
  // Calls back at once or later on a thread of the store. `renew`: those given before were refused.
  virtual void get(bool renew, Done done) = 0;
};

// For stores that are asked without a name, and for tests.
class FixedCredentials final : public CredentialSource {
 public:
  explicit FixedCredentials(Credentials credentials) : credentials_(std::move(credentials)) {}
  void get(bool, Done done) override { done(credentials_); }

 private:
  const Credentials credentials_;
};

// What AWS tools look for, in their order: AWS_ACCESS_KEY_ID with its companions, then the profile
// (`profile`, else AWS_PROFILE, else "default") of the credentials and config files. With neither,
// nobody.
class FoundCredentials final : public CredentialSource {
 public:
  explicit FoundCredentials(std::string profile = "") : profile_(std::move(profile)) {}
  void get(bool renew, Done done) override;

 private:
  const std::string profile_;
  std::mutex mutex_;
  std::optional<Credentials> known_ OVERLORD_GUARDED_BY(mutex_);
};

// A key of a profile in the files of AWS tools; empty when it is not there. Sections of the config
// file are called "profile NAME".
std::string profile_value(const std::string& profile, const std::string& key);
std::string profile_name(const std::string& asked);

}  // namespace overlord::store
