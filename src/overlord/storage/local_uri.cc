#include "overlord/storage/local_uri.h"

#include <cctype>

#include "overlord/runtime/quote.h"

namespace overlord::storage {
namespace {

constexpr std::string_view kFileScheme = "file://";

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Length of the scheme in front of "://", or npos for a plain path.
size_t scheme_length(std::string_view uri) {
  const size_t end = uri.find("://");
  if (end == std::string_view::npos || end == 0) return std::string_view::npos;
  for (const char c : uri.substr(0, end)) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '+' && c != '-' && c != '.') {
      return std::string_view::npos;
    }
  }
  return end;
}

Result<std::string> percent_decoded(std::string_view text, std::string_view uri) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return invalid_argument("broken percent escape in URI " + runtime::quote(uri) +
                              "; write % as %25");
    }
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

}  // namespace

std::string redacted(std::string_view uri) {
  const size_t scheme = scheme_length(uri);
  if (scheme == std::string_view::npos) return runtime::quote(uri);
  const size_t authority = scheme + 3;
  const size_t end = std::min(uri.find('/', authority), uri.size());
  const size_t at = uri.substr(authority, end - authority).rfind('@');
  if (at == std::string_view::npos) return runtime::quote(uri);
  std::string shown(uri.substr(0, authority));
  shown += "***@";
  shown += uri.substr(authority + at + 1);
  return runtime::quote(shown);
}

Result<std::string> local_path(std::string_view uri) {
  if (uri.empty()) return invalid_argument("empty file name");
  if (uri.find('\0') != std::string_view::npos) {
    return invalid_argument("file name with a NUL byte: " + runtime::quote(uri));
  }
  const size_t scheme = scheme_length(uri);
  if (scheme == std::string_view::npos) return std::string(uri);
  const std::string_view rest = uri.substr(scheme + 3);
  const std::string_view authority = rest.substr(0, std::min(rest.find('/'), rest.size()));
  if (authority.find('@') != std::string_view::npos) {
    return invalid_argument("user name or password inside a URL: " + redacted(uri) +
                            "; credentials come from the environment, never from a URL");
  }
  if (uri.substr(0, scheme + 3) != kFileScheme) {
    return invalid_argument("no storage serves " + std::string(uri.substr(0, scheme + 3)) + ": " +
                            redacted(uri) + "; there are s3://, file:// and plain paths");
  }
  if (!authority.empty() && authority != "localhost") {
    return invalid_argument("file URI with a host: " + redacted(uri) +
                            "; write file:///path with three slashes");
  }
  OVERLORD_TRY(std::string path, percent_decoded(rest.substr(authority.size()), uri));
  if (path.empty() || path.find('\0') != std::string::npos) {
    return invalid_argument("file URI without a usable path: " + redacted(uri));
  }
  return path;
}

std::string local_uri_like(std::string_view model_uri, const std::string& path) {
  if (scheme_length(model_uri) == std::string_view::npos) return path;
  static const char* digits = "0123456789ABCDEF";
  std::string uri(kFileScheme);
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte >= 0x7f || c == '%' || c == '?' || c == '#' || c == '*') {
      uri += '%';
      uri += digits[byte >> 4];
      uri += digits[byte & 15];
    } else {
      uri += c;
    }
  }
  return uri;
}

}  // namespace overlord::storage
