#include "overlord/store/s3_uri.h"

#include <algorithm>
#include <cctype>

#include "overlord/runtime/quote.h"

namespace overlord::store {
namespace {

constexpr size_t kMostKeyBytes = 1024;

bool is_bucket_byte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_';
}

}  // namespace

Result<ObjectName> parse_s3_uri(std::string_view uri) {
  if (!is_s3_uri(uri)) return invalid_argument("not an s3:// URI: " + runtime::quote(uri));
  const std::string_view rest = uri.substr(kS3Scheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view bucket = rest.substr(0, slash);
  if (const size_t at = bucket.rfind('@'); at != std::string_view::npos) {
    return invalid_argument("user name or password inside a URL: " +
                            runtime::quote("s3://***@" + std::string(rest.substr(at + 1))) +
                            "; credentials come from the environment or a profile, never from a "
                            "URL");
  }
  // Wider than what Amazon allows, for other stores; nothing that could leave the bucket's place
  // in a URL.
  if (bucket.size() < 3 || bucket.size() > 255 ||
      !std::all_of(bucket.begin(), bucket.end(), is_bucket_byte) || bucket.front() == '.') {
    return invalid_argument("no bucket of this name can be: " + runtime::quote(uri) +
                            "; write s3://BUCKET/KEY, where BUCKET has 3 to 255 letters, digits, "
                            "'-', '.' and '_'");
  }
  const std::string_view key = slash < rest.size() ? rest.substr(slash + 1) : std::string_view();
  if (key.empty() || key.find('\0') != std::string_view::npos || key.size() > kMostKeyBytes) {
    return invalid_argument("no object is named by " + runtime::quote(uri) +
                            "; write s3://BUCKET/KEY, with a key of 1 to 1024 bytes");
  }
  return ObjectName{std::string(bucket), std::string(key)};
}

std::string percent_encoded(std::string_view text, bool keep_slash) {
  static const char* const digits = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '.' || c == '_' || c == '~' ||
        (c == '/' && keep_slash)) {
      out += c;
    } else {
      out += '%';
      out += digits[byte >> 4];
      out += digits[byte & 15];
    }
  }
  return out;
}

}  // namespace overlord::store
