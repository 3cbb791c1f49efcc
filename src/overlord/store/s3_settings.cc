#include "overlord/store/s3_settings.h"

#include <unistd.h>

#include <cstdlib>
#include <initializer_list>

#include "overlord/base/rng.h"
#include "overlord/runtime/steady_clock.h"

namespace overlord::store {
namespace {

std::string first_of(std::initializer_list<const char*> variables, const char* key) {
  for (const char* const variable : variables) {
    const char* const value = std::getenv(variable);
    if (value != nullptr && *value != '\0') return value;
  }
  return profile_value(profile_name(""), key);
}

}  // namespace

S3Settings s3_settings() {
  S3Settings out;
  S3Options& options = out.options;
  options.endpoint = first_of({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, "endpoint_url");
  options.region = first_of({"AWS_REGION", "AWS_DEFAULT_REGION"}, "region");
  options.ca_file = first_of({"AWS_CA_BUNDLE"}, "ca_bundle");
  const char* const addressing = std::getenv("OVERLORD_S3_ADDRESSING");
  options.path_style = !options.endpoint.empty() &&
                       (addressing == nullptr || std::string_view(addressing) != "virtual");
  // Processes that stumbled at the same moment must not come back at the same moment.
  options.seed = derive_key(static_cast<uint64_t>(runtime::steady_now_ns()), "store",
                            static_cast<uint64_t>(::getpid()));
  return out;
}

}  // namespace overlord::store
