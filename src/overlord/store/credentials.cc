#include "overlord/store/credentials.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "overlord/runtime/quote.h"

namespace overlord::store {
namespace {

std::string from_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string file_named(const char* variable, const char* name) {
  const std::string told = from_environment(variable);
  if (!told.empty()) return told;
  const std::string home = from_environment("HOME");
  return home.empty() ? "" : home + "/.aws/" + name;
}

std::string_view trimmed(std::string_view text) {
  const char* const spaces = " \t\r";
  const size_t begin = text.find_first_not_of(spaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(spaces) - begin + 1);
}

struct Section {
  bool found = false;
  std::string value;
};

Section value_in(const std::string& path, const std::string& section, const std::string& key) {
  Section out;
  std::ifstream file(path);
  std::string line;
  bool inside = false;
  while (std::getline(file, line)) {
    const std::string_view text = trimmed(line);
    if (text.empty() || text.front() == '#' || text.front() == ';') continue;
    if (text.front() == '[') {
      inside = trimmed(text.substr(1, text.rfind(']') - 1)) == section;
      out.found = out.found || inside;
      continue;
    }
    const size_t equals = text.find('=');
    if (!inside || equals == std::string_view::npos) continue;
    if (trimmed(text.substr(0, equals)) == key) out.value = trimmed(text.substr(equals + 1));
  }
  return out;
}

Section value_of_profile(const std::string& profile, const std::string& key) {
  Section out = value_in(file_named("AWS_SHARED_CREDENTIALS_FILE", "credentials"), profile, key);
  if (!out.value.empty()) return out;
  const std::string config = file_named("AWS_CONFIG_FILE", "config");
  const std::string name = profile == "default" ? profile : "profile " + profile;
  const Section second = value_in(config, name, key);
  return {out.found || second.found, second.value};
}

}  // namespace

std::string profile_name(const std::string& asked) {
  if (!asked.empty()) return asked;
  const std::string named = from_environment("AWS_PROFILE");
  return named.empty() ? "default" : named;
}

std::string profile_value(const std::string& profile, const std::string& key) {
  return value_of_profile(profile, key).value;
}

Result<std::optional<Credentials>> find_credentials(const std::string& asked_profile) {
  if (asked_profile.empty()) {
    Credentials out{from_environment("AWS_ACCESS_KEY_ID"),
                    from_environment("AWS_SECRET_ACCESS_KEY"),
                    from_environment("AWS_SESSION_TOKEN")};
    if (!out.access_key.empty() && !out.secret_key.empty()) return std::optional(out);
    if (!out.access_key.empty() || !out.secret_key.empty()) {
      return invalid_argument(
          "credentials of the store: of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY only one is "
          "set; set both, or none and a profile");
    }
  }
  const std::string profile = profile_name(asked_profile);
  const Section key = value_of_profile(profile, "aws_access_key_id");
  const bool named = !asked_profile.empty() || !from_environment("AWS_PROFILE").empty();
  if (!key.found && named) {
    return invalid_argument("credentials of the store: no profile " + runtime::quote(profile) +
                            " in the files of AWS tools (AWS_SHARED_CREDENTIALS_FILE, "
                            "AWS_CONFIG_FILE, ~/.aws); write it there, or name another");
  }
  Credentials out{key.value, profile_value(profile, "aws_secret_access_key"),
                  profile_value(profile, "aws_session_token")};
  if (out.access_key.empty() && !named) return std::optional<Credentials>();
  if (out.access_key.empty() || out.secret_key.empty()) {
    return invalid_argument(
        "credentials of the store: profile " + runtime::quote(profile) +
        " lacks aws_access_key_id or aws_secret_access_key; write both (of a profile with a role, "
        "a process or single sign-on: `aws configure export-credentials` writes them)");
  }
  return std::optional(out);
}

}  // namespace overlord::store
