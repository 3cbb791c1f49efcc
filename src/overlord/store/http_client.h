// HttpClient: GET and HEAD over libcurl, many at a time on one thread of its own. A deadline bounds
// a request from the first look-up of a name to the last byte; a cancelled request's connection is
// closed within kCancelTick. It knows nothing of stores and tries nothing twice.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/runtime/buffer.h"
#include "overlord/runtime/seams.h"

namespace overlord::store {

inline constexpr int64_t kCancelTickNs = 20'000'000;
inline constexpr size_t kMostErrorText = 64 << 10;

struct HttpRequest {
  std::string url;
  bool head = false;
  bool put = false;  // without a body
  std::vector<std::string> headers;
  // Signed with AWS signature 4 when `region` is set.
  std::string region;
  std::string access_key;
  std::string secret_key;
  std::string ca_file;   // empty: the system's
  int64_t limit_ns = 0;  // for all of it, counted from its start
  // Gives the memory for the body of a good answer when the request starts, so that those that wait
  // hold none; not set: the body becomes `text`.
  std::function<runtime::Buffer()> room;
  size_t most_text = kMostErrorText;
  runtime::CancelToken cancel;     // of who waits for the answer
  runtime::CancelToken withdrawn;  // of who sent it: another answer came first
};

enum class HttpEnd : uint8_t {
  kAnswered,     // with some status; the body is whole
  kCancelled,    // by the caller, or since the client stops
  kDeadline,     // limit_ns is over
  kUnreachable,  // no name, no connection
  kBroken,       // the connection ended before the answer did
  kUntrusted,    // TLS failed
  kTooLong,      // the body is longer than there is room for
  kNoRoom,       // there is no memory for the body
  kRefused,      // libcurl cannot do it: `why`
};

struct HttpAnswer {
  HttpEnd end = HttpEnd::kRefused;
  std::string why;  // of an end that is not kAnswered
  int status = 0;
  std::string etag;           // as sent, with its quotes
  std::string content_range;  // as sent
  std::string bucket_region;  // x-amz-bucket-region
  uint64_t content_length = 0;
  uint64_t body_bytes = 0;
  runtime::Buffer body;
  std::string text;  // of the body, where it did not go into the buffer
};

using HttpDone = std::function<void(HttpAnswer)>;

class HttpClient {
 public:
  // At most `connections` requests at a time; others wait, and their limits do not run.
  static Result<std::unique_ptr<HttpClient>> make(uint32_t connections);
  // What runs or waits is answered with kCancelled; timers run at once.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // `done` is called once, on the client's thread, which it must not block.
  void start(HttpRequest request, HttpDone done);
  // Runs `task` on the client's thread, `delay_ns` from now at the earliest.
  void after(int64_t delay_ns, runtime::Task task);
  // At most so many requests at a time from now on; never more than it was made for.
  void set_limit(uint32_t requests);
  // Requests that are on a connection now.
  size_t active() const;

 private:
  struct Loop;
  explicit HttpClient(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace overlord::store
