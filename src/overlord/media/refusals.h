// What is said of blobs that are refused before they are decoded, whatever kind of media they
// should have been. `blob` is what messages call one: "picture", "sound", "clip".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "overlord/base/status.h"
#include "overlord/media/blob_head.h"
#include "overlord/runtime/quote.h"

namespace overlord::media {

// Formats that turn up under names of media and are not ours to decode.
struct KnownStranger {
  std::string_view start;
  std::string_view name;
};
inline constexpr KnownStranger kStrangersEverywhere[] = {
    {"<!DOCTYPE", "an HTML page"}, {"<!doctype", "an HTML page"},   {"<html", "an HTML page"},
    {"{\"", "a JSON document"},    {"PK\x03\x04", "a ZIP archive"}, {"\x1f\x8b", "gzip data"},
};

// The name of one of those or of the kind's own; "" where it is none of them.
inline std::string stranger_name(std::string_view bytes, std::span<const KnownStranger> own) {
  using Strangers = std::span<const KnownStranger>;
  for (const Strangers strangers : {own, Strangers(kStrangersEverywhere)}) {
    for (const auto& [start, name] : strangers) {
      if (bytes.starts_with(start)) return std::string(name);
    }
  }
  return "";
}

// `name` is the format's, where it is known; `allowed` says what blobs must be.
inline Status wrong_format(const std::string& blob, std::string_view bytes, const std::string& name,
                           const std::string& allowed) {
  if (bytes.empty()) return bad_data(blob + " is empty: 0 bytes");
  if (!name.empty()) return bad_data(blob + " is of an unsupported format: " + name + allowed);
  return bad_data(blob + " is of an unknown format: it starts with " +
                  runtime::quote(bytes.substr(0, 12)) + allowed);
}

// Ok where `found` is no more than what the limit of this name allows.
inline Status within_limit(std::string_view blob, std::string_view what, int64_t found,
                           std::string_view limit, int64_t allowed) {
  if (found <= allowed) return {};
  return bad_data(std::string(blob) + " refused before decoding: " + std::string(what) + " is " +
                  std::to_string(found) + ", more than the limit " + std::string(limit) + " = " +
                  std::to_string(allowed));
}

// Says that what is wrong was found in a part of the blob.
inline Status in_head(const Status& status, const BlobHead& blob) {
  return status.with_context("in its first " + std::to_string(blob.head.size()) + " of " +
                             std::to_string(blob.size_bytes) + " bytes");
}

}  // namespace overlord::media
