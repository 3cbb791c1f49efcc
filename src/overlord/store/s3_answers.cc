#include "overlord/store/s3_answers.h"

#include <charconv>
#include <optional>
#include <utility>

#include "overlord/runtime/quote.h"

namespace overlord::store {
namespace {

using runtime::quote;

constexpr size_t kShownError = 200;

Status changed(const std::string& uri, const std::string& how) {
  return {Code::kSourceChanged, "shard " + quote(uri) + " changed while in use: " + how +
                                    "; put the old object back, or run `overlord index` and start "
                                    "a new stream"};
}

Judged final_of(Status status) { return {Verdict::kFinal, std::move(status)}; }

Judged passing(Verdict verdict, const std::string& uri, const std::string& why) {
  return {verdict, Status(Code::kUnavailable, "cannot read " + quote(uri) + ": " + why)};
}

// What the store says, in its own words, which are quoted.
std::string said(const HttpAnswer& answer) {
  std::string text = "HTTP " + std::to_string(answer.status);
  const std::string code = xml_text(answer.text, "Code");
  const std::string message = xml_text(answer.text, "Message");
  if (!code.empty()) text += " " + quote(code, kShownError);
  if (!message.empty()) text += " " + quote(message, kShownError);
  return text;
}

bool is_about_time(const std::string& code) {
  return code == "ExpiredToken" || code == "ExpiredTokenException" || code == "InvalidToken" ||
         code == "TokenRefreshRequired" || code == "RequestExpired" ||
         code == "RequestTimeTooSkewed" || code == "InvalidAccessKeyId";
}

Judged judge_end(const std::string& uri, const HttpAnswer& answer) {
  switch (answer.end) {
    case HttpEnd::kAnswered:
      return {};
    case HttpEnd::kCancelled:
      return final_of({Code::kCancelled, "read of " + quote(uri) + " was cancelled"});
    case HttpEnd::kDeadline:
      return passing(Verdict::kTransient, uri, "no whole answer in time: " + answer.why);
    case HttpEnd::kUnreachable:
      return passing(Verdict::kTransient, uri, "the store cannot be reached: " + answer.why);
    case HttpEnd::kBroken:
      return passing(Verdict::kTransient, uri, "the connection broke: " + answer.why);
    case HttpEnd::kTooLong:
      return passing(Verdict::kTransient, uri, "the answer is longer than what was asked for");
    case HttpEnd::kUntrusted:
      return final_of(invalid_argument(
          "cannot read " + quote(uri) + ": the store's certificate is not trusted: " + answer.why +
          "; name the file of its authority in AWS_CA_BUNDLE, or check the host and the clock"));
    case HttpEnd::kNoRoom:
      return final_of({Code::kResource, "no memory to read " + quote(uri)});
    case HttpEnd::kRefused:
      break;
  }
  return final_of(invalid_argument("cannot read " + quote(uri) + ": " + answer.why));
}

// Everything that is not 2xx and means the same for whatever was asked.
Judged judge_status(const std::string& uri, const HttpAnswer& answer) {
  const std::string code = xml_text(answer.text, "Code");
  const int status = answer.status;
  if (status == 429 || status == 503 || code == "SlowDown") {
    return passing(Verdict::kSlowDown, uri, "the store asks for fewer requests: " + said(answer));
  }
  if (status >= 500 || status == 408 || code == "RequestTimeout") {
    return passing(Verdict::kTransient, uri, said(answer));
  }
  if (status == 301 || status == 307 || code == "AuthorizationHeaderMalformed" ||
      code == "PermanentRedirect") {
    std::string region = answer.bucket_region;
    if (region.empty()) region = xml_text(answer.text, "Region");
    return final_of(invalid_argument(
        "cannot read " + quote(uri) + ": its bucket is elsewhere: " + said(answer) +
        (region.empty() ? "; set AWS_REGION or AWS_ENDPOINT_URL_S3 to where it is"
                        : "; it is in region " + quote(region) + ", set AWS_REGION to that")));
  }
  const Status refused = invalid_argument(
      "the store refuses " + quote(uri) + ": " + said(answer) +
      "; check that these credentials (AWS_PROFILE, AWS_ACCESS_KEY_ID) may read and list it");
  if (status == 401 || status == 403 || is_about_time(code)) {
    // HEAD has no body that would tell an expired token from a forbidden object.
    const bool may_pass = is_about_time(code) || code.empty();
    return {may_pass ? Verdict::kExpired : Verdict::kFinal, refused};
  }
  return final_of(refused);
}

struct ContentRange {
  uint64_t first = 0;
  uint64_t last = 0;
  std::optional<uint64_t> total;
};

std::optional<uint64_t> number(std::string_view* text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc()) return std::nullopt;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return value;
}

std::optional<ContentRange> parse_content_range(std::string_view text) {
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  ContentRange range;
  const auto first = number(&text);
  if (!first || !text.starts_with('-')) return std::nullopt;
  text.remove_prefix(1);
  const auto last = number(&text);
  if (!last || !text.starts_with('/')) return std::nullopt;
  text.remove_prefix(1);
  range.first = *first;
  range.last = *last;
  if (text != "*") {
    range.total = number(&text);
    if (!range.total) return std::nullopt;
  }
  return range;
}

// A good answer whose bytes may still be others than were asked for.
Judged judge_body(const RangeRequest& request, const HttpAnswer& answer) {
  const std::string uri = request.object.uri();
  const std::string etag = plain_etag(answer.etag);
  if (!request.etag.empty() && etag != request.etag) {
    return final_of(changed(uri, "its ETag was " + quote(request.etag) + " and is " +
                                     (etag.empty() ? "gone" : quote(etag))));
  }
  const std::optional<ContentRange> range = parse_content_range(answer.content_range);
  if (answer.status == 206) {
    if (!range || range->first != request.offset ||
        range->last != request.offset + request.size_bytes - 1) {
      // Behind the last byte a store leaves out what is not there.
      if (range && range->first == request.offset && range->total &&
          *range->total < request.offset + request.size_bytes) {
        return final_of(bad_data("object ends early: " + quote(uri) + " has " +
                                 std::to_string(*range->total) + " bytes, and " +
                                 std::to_string(request.size_bytes) + " from offset " +
                                 std::to_string(request.offset) + " were asked for"));
      }
      return passing(Verdict::kTransient, uri,
                     "the store answered another range: " + quote(answer.content_range));
    }
  } else if (request.offset > 0) {
    return final_of(invalid_argument("cannot read " + quote(uri) +
                                     ": the store gives no ranges of objects (HTTP " +
                                     std::to_string(answer.status) + " to a range)"));
  }
  if (answer.body_bytes == request.size_bytes) return {};
  return passing(Verdict::kTransient, uri,
                 "the answer has " + std::to_string(answer.body_bytes) + " bytes of " +
                     std::to_string(request.size_bytes));
}

std::string read_entities(std::string_view text) {
  static constexpr std::pair<std::string_view, char> kNamed[] = {
      {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '&') {
      out += text[i++];
      continue;
    }
    size_t used = 0;
    for (const auto& [name, c] : kNamed) {
      if (!text.substr(i).starts_with(name)) continue;
      out += c;
      used = name.size();
    }
    if (used == 0 && text.substr(i).starts_with("&#")) {
      const size_t end = text.find(';', i);
      const bool hex = text.substr(i).starts_with("&#x");
      uint32_t value = 0;
      const char* const begin = text.data() + i + (hex ? 3 : 2);
      if (end != std::string_view::npos &&
          std::from_chars(begin, text.data() + end, value, hex ? 16 : 10).ptr ==
              text.data() + end &&
          value > 0 && value < 0x80) {
        out += static_cast<char>(value);
        used = end - i + 1;
      }
    }
    if (used == 0) {
      out += '&';
      used = 1;
    }
    i += used;
  }
  return out;
}

// The text between the first <name> and </name> behind `*at`, which goes behind it.
std::optional<std::string_view> element(std::string_view xml, std::string_view name, size_t* at) {
  const std::string open = "<" + std::string(name) + ">";
  const std::string close = "</" + std::string(name) + ">";
  const size_t begin = xml.find(open, *at);
  if (begin == std::string_view::npos) return std::nullopt;
  const size_t end = xml.find(close, begin);
  if (end == std::string_view::npos) return std::nullopt;
  *at = end + close.size();
  return xml.substr(begin + open.size(), end - begin - open.size());
}

}  // namespace

std::string plain_etag(std::string_view sent) {
  if (sent.size() >= 2 && sent.front() == '"' && sent.back() == '"') {
    sent = sent.substr(1, sent.size() - 2);
  }
  return std::string(sent);
}

std::string xml_text(std::string_view xml, std::string_view name) {
  size_t at = 0;
  const auto found = element(xml, name, &at);
  return found ? read_entities(*found) : std::string();
}

Judged judge_range(const RangeRequest& request, const HttpAnswer& answer) {
  const std::string uri = request.object.uri();
  if (Judged ended = judge_end(uri, answer); ended.verdict != Verdict::kGood) return ended;
  if (answer.status == 200 || answer.status == 206) return judge_body(request, answer);
  const bool expects = !request.etag.empty();
  switch (answer.status) {
    case 412:
      return final_of(changed(
          uri, "it was written again (its ETag is not " + quote(request.etag) + " any more)"));
    case 404:
      if (xml_text(answer.text, "Code") == "NoSuchBucket") break;
      if (expects) return final_of(changed(uri, "it was deleted"));
      return final_of(not_found("no such object: " + quote(uri)));
    case 416:
      if (expects) return final_of(changed(uri, "it is shorter than it was"));
      return final_of(bad_data("read past the end of " + quote(uri) + ": offset " +
                               std::to_string(request.offset) + ", size " +
                               std::to_string(request.size_bytes)));
    default:
      break;
  }
  if (answer.status == 404) {
    return final_of(
        not_found("no such bucket: " + quote(request.object.bucket) + " of " + quote(uri)));
  }
  return judge_status(uri, answer);
}

Judged judge_head(const ObjectName& object, const HttpAnswer& answer) {
  const std::string uri = object.uri();
  if (Judged ended = judge_end(uri, answer); ended.verdict != Verdict::kGood) return ended;
  if (answer.status == 404) return final_of(not_found("no such object: " + quote(uri)));
  if (answer.status != 200) return judge_status(uri, answer);
  if (!answer.etag.empty()) return {};
  return final_of(invalid_argument("object " + quote(uri) +
                                   " has no ETag: the store cannot tell its versions apart"));
}

Judged judge_list(const std::string& bucket, const HttpAnswer& answer) {
  const std::string uri = "s3://" + bucket + "/";
  if (Judged ended = judge_end(uri, answer); ended.verdict != Verdict::kGood) return ended;
  if (answer.status == 200) return {};
  if (answer.status == 404) return final_of(not_found("no such bucket: " + quote(bucket)));
  return judge_status(uri, answer);
}

Result<ListPage> read_list_page(std::string_view xml) {
  if (xml.find("<ListBucketResult") == std::string_view::npos ||
      xml.find("</ListBucketResult>") == std::string_view::npos) {
    return bad_data("the store answered something else than a list of objects");
  }
  ListPage page;
  size_t at = 0;
  while (const auto entry = element(xml, "Contents", &at)) {
    ObjectInfo object;
    object.key = xml_text(*entry, "Key");
    object.etag = plain_etag(xml_text(*entry, "ETag"));
    const std::string size = xml_text(*entry, "Size");
    const auto read = std::from_chars(size.data(), size.data() + size.size(), object.size_bytes);
    if (object.key.empty() || read.ec != std::errc()) {
      return bad_data("a list of objects has an entry without key or size");
    }
    page.objects.push_back(std::move(object));
  }
  if (xml_text(xml, "IsTruncated") == "true") {
    page.next = xml_text(xml, "NextContinuationToken");
    if (page.next.empty()) return bad_data("a list of objects breaks off without a token");
  }
  return page;
}

}  // namespace overlord::store
