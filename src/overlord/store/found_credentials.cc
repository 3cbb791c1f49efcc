#include "overlord/store/found_credentials.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <utility>

#include "overlord/runtime/quote.h"
#include "overlord/store/s3_answers.h"
#include "overlord/store/s3_uri.h"

namespace overlord::store {
namespace {

using runtime::quote;

constexpr int64_t kServiceLimitNs = 5'000'000'000;
// Where no machine answers, nobody waits for long.
constexpr int64_t kMachineLimitNs = 1'000'000'000;
constexpr int64_t kMostAheadS = 300;  // before they expire others are asked for

std::string told(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

int64_t now_s() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

std::string whole_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  std::string out = text.str();
  while (!out.empty() && (out.back() == '\n' || out.back() == '\r')) out.pop_back();
  return out;
}

// Keys that came over a plain connection could be anybody's: only services of the host itself are
// asked like that.
bool is_of_host(const std::string& url) {
  if (url.starts_with("https://")) return true;
  for (const char* const host : {"http://169.254.170.2", "http://169.254.170.23", "http://127.",
                                 "http://localhost", "http://[::1]", "http://[fd00:ec2::23]"}) {
    const std::string_view name(host);
    if (!url.starts_with(name)) continue;
    const char behind = url.size() > name.size() ? url[name.size()] : '/';
    if (name.ends_with('.') || behind == '/' || behind == ':') return true;
  }
  return false;
}

}  // namespace

std::string json_text(std::string_view json, std::string_view key) {
  const std::string quoted = "\"" + std::string(key) + "\"";
  size_t at = json.find(quoted);
  if (at == std::string_view::npos) return "";
  at = json.find_first_not_of(" \t\r\n", at + quoted.size());
  if (at == std::string_view::npos || json[at] != ':') return "";
  at = json.find_first_not_of(" \t\r\n", at + 1);
  if (at == std::string_view::npos || json[at] != '"') return "";
  std::string out;
  for (++at; at < json.size() && json[at] != '"'; ++at) {
    if (json[at] == '\\' && ++at == json.size()) break;
    out += json[at];
  }
  return out;
}

int64_t seconds_of(const std::string& time) {
  std::tm parts{};
  const char* const end = ::strptime(time.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  return end == nullptr ? 0 : ::timegm(&parts);
}

void FoundCredentials::get(const std::optional<Credentials>& refused, Done done) {
  {
    std::unique_lock lock(mutex_);
    is_held(mutex_);
    const int64_t now = now_s();
    const bool fits = known_ && refused != known_->credentials;
    if (fits && (known_->renew_s == 0 || now < known_->renew_s)) {
      const Credentials credentials = known_->credentials;
      lock.unlock();
      return done(credentials);
    }
    waiting_.push_back(std::move(done));
    if (std::exchange(looking_, true)) return;
  }
  look();
}

void FoundCredentials::look() {
  const auto written = find_credentials(profile_);
  if (!written.ok()) return tell(written.status());
  if (*written) return found(**written, "");
  if (!told("AWS_WEB_IDENTITY_TOKEN_FILE").empty() && !told("AWS_ROLE_ARN").empty()) {
    return ask_web_identity();
  }
  const std::string relative = told("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  if (!relative.empty()) return ask_container("http://169.254.170.2" + relative);
  const std::string full = told("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (!full.empty()) return ask_container(full);
  if (told("AWS_EC2_METADATA_DISABLED") == "true") return found({}, "");
  ask_machine();
}

void FoundCredentials::ask(HttpRequest request, std::function<void(const HttpAnswer&)> good) {
  if (request.limit_ns == 0) request.limit_ns = kServiceLimitNs;
  client_->start(std::move(request), [this, good = std::move(good)](const HttpAnswer& answer) {
    if (answer.end == HttpEnd::kAnswered && answer.status == 200) return good(answer);
    if (answer.end == HttpEnd::kCancelled) {
      return failed({Code::kCancelled, "credentials of the store: asking for them was cancelled"});
    }
    failed({Code::kUnavailable,
            "credentials of the store: the service that gives them answers " +
                (answer.end == HttpEnd::kAnswered ? "HTTP " + std::to_string(answer.status)
                                                  : quote(answer.why))});
  });
}

void FoundCredentials::ask_web_identity() {
  const std::string token = whole_file(told("AWS_WEB_IDENTITY_TOKEN_FILE"));
  if (token.empty()) {
    return failed(invalid_argument(
        "credentials of the store: AWS_WEB_IDENTITY_TOKEN_FILE names no file with a token"));
  }
  std::string endpoint = told("AWS_ENDPOINT_URL_STS");
  if (endpoint.empty()) {
    const std::string region = told("AWS_REGION");
    endpoint =
        region.empty() ? "https://sts.amazonaws.com" : "https://sts." + region + ".amazonaws.com";
  }
  HttpRequest request;
  request.url = endpoint + "/?Action=AssumeRoleWithWebIdentity&RoleArn=" +
                percent_encoded(told("AWS_ROLE_ARN"), false) +
                "&RoleSessionName=overlord&Version=2011-06-15&WebIdentityToken=" +
                percent_encoded(token, false);
  ask(std::move(request), [this](const HttpAnswer& answer) {
    found({xml_text(answer.text, "AccessKeyId"), xml_text(answer.text, "SecretAccessKey"),
           xml_text(answer.text, "SessionToken")},
          xml_text(answer.text, "Expiration"));
  });
}

void FoundCredentials::ask_container(const std::string& url) {
  if (!is_of_host(url)) {
    return failed(invalid_argument(
        "credentials of the store: AWS_CONTAINER_CREDENTIALS_FULL_URI must be https://, or a "
        "service of this host"));
  }
  HttpRequest request;
  request.url = url;
  std::string token = told("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  const std::string file = told("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  if (!file.empty()) token = whole_file(file);
  if (!token.empty()) request.headers.push_back("Authorization: " + token);
  ask(std::move(request), [this](const HttpAnswer& answer) { take_json(answer.text); });
}

// A machine that is none of Amazon's does not answer, and its requests are nobody's.
void FoundCredentials::ask_machine() {
  std::string endpoint = told("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (endpoint.empty()) endpoint = "http://169.254.169.254";
  HttpRequest request;
  request.url = endpoint + "/latest/api/token";
  request.put = true;
  request.limit_ns = kMachineLimitNs;
  request.headers.emplace_back("X-aws-ec2-metadata-token-ttl-seconds: 21600");
  client_->start(std::move(request), [this, endpoint](const HttpAnswer& answer) {
    if (answer.end == HttpEnd::kCancelled) return failed({Code::kCancelled, "cancelled"});
    if (answer.end != HttpEnd::kAnswered || answer.status != 200) return found({}, "");
    HttpRequest role;
    role.url = endpoint + "/latest/meta-data/iam/security-credentials/";
    role.headers.push_back("X-aws-ec2-metadata-token: " + answer.text);
    const HttpRequest named = role;
    ask(std::move(role), [this, named](const HttpAnswer& roles) {
      HttpRequest keys = named;
      keys.url += roles.text.substr(0, roles.text.find('\n'));
      ask(std::move(keys), [this](const HttpAnswer& given) { take_json(given.text); });
    });
  });
}

void FoundCredentials::take_json(const std::string& text) {
  found({json_text(text, "AccessKeyId"), json_text(text, "SecretAccessKey"),
         json_text(text, "Token")},
        json_text(text, "Expiration"));
}

void FoundCredentials::found(const Credentials& credentials, const std::string& expiration) {
  if (credentials.access_key.empty() != credentials.secret_key.empty()) {
    return failed(
        {Code::kUnavailable, "credentials of the store: the service that gives them sent no keys"});
  }
  {
    const std::lock_guard lock(mutex_);
    known_ = Known{credentials, 0, seconds_of(expiration)};
    if (known_->expires_s > 0) {
      const int64_t lifetime = std::max<int64_t>(known_->expires_s - now_s(), 0);
      known_->renew_s = known_->expires_s - std::min(kMostAheadS, lifetime / 4);
    }
  }
  tell(credentials);
}

// Those that were there do for as long as they last.
void FoundCredentials::failed(const Status& status) {
  std::optional<Credentials> still;
  {
    const std::lock_guard lock(mutex_);
    if (known_ && now_s() < known_->expires_s) still = known_->credentials;
  }
  if (still && status.code() == Code::kUnavailable) return tell(*still);
  tell(status);
}

void FoundCredentials::tell(const Result<Credentials>& answer) {
  std::vector<Done> waiting;
  {
    const std::lock_guard lock(mutex_);
    waiting.swap(waiting_);
    looking_ = false;
  }
  for (const Done& done : waiting) done(answer);
}

}  // namespace overlord::store
