// FoundCredentials: what AWS tools would find on this host, in their order: the environment, a
// profile, a web identity (Kubernetes), the container's service (ECS, EKS), the machine's (EC2);
// with none of them nobody, and requests are not signed. Asked for again before they expire, by one
// of all that wait.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/store/credentials.h"
#include "overlord/store/http_client.h"

namespace overlord::store {

class FoundCredentials final : public CredentialSource {
 public:
  explicit FoundCredentials(std::string profile = "") : profile_(std::move(profile)) {}

  void use(HttpClient* client) override { client_ = client; }
  void get(const std::optional<Credentials>& refused, Done done) override;

 private:
  struct Known {
    Credentials credentials;
    int64_t renew_s = 0;    // by the clock of the day; 0: they last
    int64_t expires_s = 0;  // ditto
  };
  void look();
  void ask_web_identity();
  void ask_container(const std::string& url);
  void ask_machine();
  void ask(HttpRequest request, std::function<void(const HttpAnswer&)> good);
  void take_json(const std::string& text);
  void found(const Credentials& credentials, const std::string& expiration);
  void failed(const Status& status);
  void tell(const Result<Credentials>& answer);

  const std::string profile_;
  HttpClient* client_ = nullptr;
  std::mutex mutex_;
  std::optional<Known> known_ OVERLORD_GUARDED_BY(mutex_);
  std::vector<Done> waiting_ OVERLORD_GUARDED_BY(mutex_);
  bool looking_ OVERLORD_GUARDED_BY(mutex_) = false;
};

// The value of a string of a JSON object; empty when it is not there.
std::string json_text(std::string_view json, std::string_view key);
// 2026-01-31T12:00:00Z as seconds since 1970; 0 when it is no such time.
int64_t seconds_of(const std::string& time);

}  // namespace overlord::store
