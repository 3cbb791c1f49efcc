// Where the store is and how it is spoken to, as AWS tools are told: by the environment, then by a
// profile. Whatever runs on a host beside a trainer hears the same.
#pragma once

#include <string>

#include "overlord/store/s3_store.h"

namespace overlord::store {

struct S3Settings {
  S3Options options;
  std::string profile;  // empty: what the environment says, else "default"
};

// AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION or AWS_DEFAULT_REGION, AWS_CA_BUNDLE; where
// they are not set `endpoint_url`, `region` and `ca_bundle` of the profile. A store that is not
// Amazon's has its buckets in the path, unless OVERLORD_S3_ADDRESSING is "virtual".
S3Settings s3_settings();

}  // namespace overlord::store
