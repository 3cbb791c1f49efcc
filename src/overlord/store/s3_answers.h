// What an answer of S3 means: one of few verdicts, and words for it. What passes is never taken for
// what is wrong with the data, and no bytes of another version are taken at all.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/store/http_client.h"
#include "overlord/store/object_store.h"

namespace overlord::store {

enum class Verdict : uint8_t {
  kGood,
  kTransient,  // 5xx, resets, short bodies, silence: try again
  kSlowDown,   // 429, 503: try again later
  kExpired,    // 400 or 403 for credentials: get others and try again
  kFinal,      // `status` is the answer
};

struct Judged {
  Verdict verdict = Verdict::kGood;
  Status status;  // why it is not good; for a transient one, what is said when time is over
};

Judged judge_range(const RangeRequest& request, const HttpAnswer& answer);
Judged judge_head(const ObjectName& object, const HttpAnswer& answer);
Judged judge_list(const std::string& bucket, const HttpAnswer& answer);

// An ETag as a name: without the quotes that some stores leave out.
std::string plain_etag(std::string_view sent);

struct ListPage {
  std::vector<ObjectInfo> objects;
  std::string next;  // token of the page behind it; empty: none
};

// kBadData: not an answer to ListObjectsV2.
Result<ListPage> read_list_page(std::string_view xml);

// The text of the first <name> in `xml`, its entities read; empty when there is none.
std::string xml_text(std::string_view xml, std::string_view name);

}  // namespace overlord::store
