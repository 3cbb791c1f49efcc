#include "overlord/store/http_client.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "overlord/base/guarded_by.h"
#include "overlord/runtime/steady_clock.h"
#include "overlord/runtime/thread_executor.h"
#include "overlord/store/curl_library.h"

namespace overlord::store {
namespace {

constexpr long kConnectMs = 5'000;
constexpr long kReadBytes = 512 << 10;
constexpr int64_t kIdleTickNs = 1'000'000'000;

bool has_name(std::string_view line, std::string_view name) {
  if (line.size() <= name.size() || line[name.size()] != ':') return false;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = line[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c) != name[i]) return false;
  }
  return true;
}

std::string value_of(std::string_view line, std::string_view name) {
  line.remove_prefix(name.size() + 1);
  while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n' || line.back() == ' ')) {
    line.remove_suffix(1);
  }
  return std::string(line);
}

HttpEnd end_of(CURLcode code) {
  switch (code) {
    case CURLE_OK:
      return HttpEnd::kAnswered;
    case CURLE_OPERATION_TIMEDOUT:
      return HttpEnd::kDeadline;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
      return HttpEnd::kUnreachable;
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return HttpEnd::kBroken;
    // A handshake that was cut is a connection that was cut.
    case CURLE_SSL_CONNECT_ERROR:
      return HttpEnd::kUnreachable;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR:
      return HttpEnd::kUntrusted;
    case CURLE_WRITE_ERROR:
      return HttpEnd::kTooLong;
    default:
      return HttpEnd::kRefused;
  }
}

struct Transfer {
  HttpRequest request;
  HttpDone done;
  HttpAnswer answer;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  const CurlLibrary* curl = nullptr;
  char error[CURL_ERROR_SIZE] = {};
};

size_t take_header(char* data, size_t size, size_t count, void* user) {
  HttpAnswer& answer = static_cast<Transfer*>(user)->answer;
  const std::string_view line(data, size * count);
  if (has_name(line, "etag")) answer.etag = value_of(line, "etag");
  if (has_name(line, "content-range")) answer.content_range = value_of(line, "content-range");
  if (has_name(line, "x-amz-bucket-region")) {
    answer.bucket_region = value_of(line, "x-amz-bucket-region");
  }
  if (has_name(line, "content-length")) {
    const std::string text = value_of(line, "content-length");
    std::from_chars(text.data(), text.data() + text.size(), answer.content_length);
  }
  return size * count;
}

size_t take_body(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  HttpAnswer& answer = transfer.answer;
  const size_t bytes = size * count;
  long status = 0;
  transfer.curl->easy_get(transfer.easy, CURLINFO_RESPONSE_CODE, &status);
  const bool good = status >= 200 && status < 300;
  if (good && answer.body.data != nullptr) {
    if (bytes > answer.body.size - answer.body_bytes) return 0;
    std::memcpy(answer.body.data.get() + answer.body_bytes, data, bytes);
  } else if (answer.text.size() + bytes <= transfer.request.most_text) {
    answer.text.append(data, bytes);
  } else if (good) {
    return 0;
  }
  answer.body_bytes += bytes;
  return bytes;
}

bool is_cancelled(const HttpRequest& request) {
  return request.cancel.cancelled() || request.withdrawn.cancelled();
}

}  // namespace

struct HttpClient::Loop {
  Loop(const CurlLibrary* library, uint32_t most)
      : curl(library), connections(std::max(most, 1u)), limit(connections) {}

  struct Timer {
    int64_t when_ns;
    uint64_t sequence;
    runtime::Task task;
    bool operator<(const Timer& other) const {
      return when_ns != other.when_ns ? when_ns > other.when_ns : sequence > other.sequence;
    }
  };

  void work();
  void take_new();
  void begin(HttpRequest request, HttpDone done);
  void set_options(Transfer& transfer);
  void finish(std::list<Transfer>::iterator transfer, HttpEnd end);
  void finish_ended();
  void finish_cancelled(bool all);
  void run_timers(bool all);
  void take_fresh();
  void drain();
  int wait_ms();

  const CurlLibrary* const curl;
  const uint32_t connections;
  std::atomic<uint32_t> limit;
  CURLM* multi = nullptr;
  runtime::SteadyClock clock;
  std::thread thread;
  std::atomic<bool> stopping{false};
  std::atomic<size_t> active{0};

  std::mutex mutex;
  std::deque<std::pair<HttpRequest, HttpDone>> fresh OVERLORD_GUARDED_BY(mutex);
  std::vector<Timer> timers OVERLORD_GUARDED_BY(mutex);  // heap, earliest first
  uint64_t sequence OVERLORD_GUARDED_BY(mutex) = 0;

  // The thread's own.
  std::deque<std::pair<HttpRequest, HttpDone>> waiting;
  std::list<Transfer> running;
  std::vector<CURL*> idle;
};

void HttpClient::Loop::set_options(Transfer& transfer) {
  const HttpRequest& request = transfer.request;
  const auto set = [&](CURLoption option, auto value) {
    curl->easy_set(transfer.easy, option, value);
  };
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
  // Never 0, which would be no limit.
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(std::max<int64_t>(request.limit_ns / 1'000'000, 1)));
  set(CURLOPT_BUFFERSIZE, kReadBytes);
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_NOBODY, request.head ? 1L : 0L);
  if (request.put) set(CURLOPT_CUSTOMREQUEST, "PUT");
  set(CURLOPT_ERRORBUFFER, static_cast<char*>(transfer.error));
  set(CURLOPT_HEADERFUNCTION, &take_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
  set(CURLOPT_WRITEFUNCTION, &take_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  set(CURLOPT_PRIVATE, static_cast<void*>(&transfer));
  for (const std::string& header : request.headers) {
    transfer.headers = curl->list_append(transfer.headers, header.c_str());
  }
  set(CURLOPT_HTTPHEADER, transfer.headers);
  if (!request.ca_file.empty()) set(CURLOPT_CAINFO, request.ca_file.c_str());
  if (!request.region.empty()) {
    set(CURLOPT_AWS_SIGV4, ("aws:amz:" + request.region + ":s3").c_str());
    set(CURLOPT_USERNAME, request.access_key.c_str());
    set(CURLOPT_PASSWORD, request.secret_key.c_str());
  }
}

void HttpClient::Loop::begin(HttpRequest request, HttpDone done) {
  Transfer& transfer = running.emplace_back();
  transfer.request = std::move(request);
  transfer.done = std::move(done);
  transfer.curl = curl;
  const auto at = std::prev(running.end());
  ++active;
  if (transfer.request.room) {
    transfer.answer.body = transfer.request.room();
    if (transfer.answer.body.data == nullptr) return finish(at, HttpEnd::kNoRoom);
  }
  if (!idle.empty()) {
    transfer.easy = idle.back();
    idle.pop_back();
  } else {
    transfer.easy = curl->easy_init();
  }
  if (transfer.easy == nullptr) {
    transfer.answer.why = "libcurl has no memory";
    return finish(at, HttpEnd::kRefused);
  }
  set_options(transfer);
  if (curl->multi_add(multi, transfer.easy) != CURLM_OK) {
    transfer.answer.why = "libcurl does not take the request";
    finish(at, HttpEnd::kRefused);
  }
}

// What was begun and has not ended loses its connection: nobody waits for the rest of its bytes.
void HttpClient::Loop::finish(std::list<Transfer>::iterator transfer, HttpEnd end) {
  if (transfer->easy != nullptr) {
    long status = 0;
    curl->easy_get(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    transfer->answer.status = static_cast<int>(status);
    curl->multi_remove(multi, transfer->easy);
    curl->easy_reset(transfer->easy);
    idle.push_back(transfer->easy);
  }
  if (transfer->headers != nullptr) curl->list_free(transfer->headers);
  transfer->answer.end = end;
  HttpDone done = std::move(transfer->done);
  HttpAnswer answer = std::move(transfer->answer);
  running.erase(transfer);
  --active;
  done(std::move(answer));
}

void HttpClient::Loop::finish_ended() {
  int left = 0;
  while (CURLMsg* const message = curl->multi_info(multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;
    const auto ended = std::find_if(running.begin(), running.end(), [&](const Transfer& transfer) {
      return transfer.easy == message->easy_handle;
    });
    OVERLORD_CHECK(ended != running.end(), "a transfer that ended was begun");
    if (code != CURLE_OK) {
      ended->answer.why = ended->error[0] != '\0' ? ended->error : curl->easy_error(code);
    }
    finish(ended, end_of(code));
  }
}

void HttpClient::Loop::finish_cancelled(bool all) {
  for (auto transfer = running.begin(); transfer != running.end();) {
    const auto next = std::next(transfer);
    if (all || is_cancelled(transfer->request)) finish(transfer, HttpEnd::kCancelled);
    transfer = next;
  }
  for (size_t i = waiting.size(); i-- > 0;) {
    std::pair<HttpRequest, HttpDone> next = std::move(waiting.front());
    waiting.pop_front();
    if (!all && !is_cancelled(next.first)) {
      waiting.push_back(std::move(next));
      continue;
    }
    HttpAnswer answer;
    answer.end = HttpEnd::kCancelled;
    next.second(std::move(answer));
  }
}

void HttpClient::Loop::take_fresh() {
  std::lock_guard lock(mutex);
  for (auto& request : fresh) waiting.push_back(std::move(request));
  fresh.clear();
}

void HttpClient::Loop::take_new() {
  take_fresh();
  while (!waiting.empty() && running.size() < limit) {
    std::pair<HttpRequest, HttpDone> next = std::move(waiting.front());
    waiting.pop_front();
    begin(std::move(next.first), std::move(next.second));
  }
}

void HttpClient::Loop::run_timers(bool all) {
  const int64_t now_ns = clock.now_ns();
  std::vector<Timer> due;
  {
    std::lock_guard lock(mutex);
    while (!timers.empty() && (all || timers.front().when_ns <= now_ns)) {
      std::pop_heap(timers.begin(), timers.end());
      due.push_back(std::move(timers.back()));
      timers.pop_back();
    }
  }
  for (Timer& timer : due) timer.task();
}

int HttpClient::Loop::wait_ms() {
  int64_t wait_ns = running.empty() && waiting.empty() ? kIdleTickNs : kCancelTickNs;
  std::lock_guard lock(mutex);
  if (!fresh.empty()) return 0;
  if (!timers.empty()) wait_ns = std::min(wait_ns, timers.front().when_ns - clock.now_ns());
  return static_cast<int>(std::clamp<int64_t>((wait_ns + 999'999) / 1'000'000, 0, 1'000));
}

void HttpClient::Loop::work() {
  while (!stopping) {
    run_timers(false);
    take_new();
    int still = 0;
    curl->multi_perform(multi, &still);
    finish_ended();
    finish_cancelled(false);
    take_new();
    curl->multi_poll(multi, nullptr, 0, wait_ms(), nullptr);
  }
  drain();
}

// Whoever waits for an answer or for its time to try again is told now.
void HttpClient::Loop::drain() {
  bool more = true;
  while (more) {
    run_timers(true);
    take_fresh();
    more = !running.empty() || !waiting.empty();
    finish_cancelled(true);
  }
}

HttpClient::HttpClient(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}

Result<std::unique_ptr<HttpClient>> HttpClient::make(uint32_t connections) {
  OVERLORD_TRY(const CurlLibrary* const curl, curl_library());
  auto loop = std::make_unique<Loop>(curl, connections);
  loop->multi = curl->multi_init();
  if (loop->multi == nullptr) return Status(Code::kResource, "libcurl has no memory");
  curl->multi_set(loop->multi, CURLMOPT_MAXCONNECTS, static_cast<long>(loop->connections));
  try {
    loop->thread = std::thread([at = loop.get()] { at->work(); });
  } catch (const std::system_error&) {
    curl->multi_cleanup(loop->multi);
    return runtime::no_thread("reading from object stores");
  }
  pthread_setname_np(loop->thread.native_handle(), "ol-http");
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(loop)));
}

HttpClient::~HttpClient() {
  loop_->stopping = true;
  loop_->curl->multi_wakeup(loop_->multi);
  loop_->thread.join();
  loop_->drain();  // what was told while the thread ended
  for (CURL* const easy : loop_->idle) loop_->curl->easy_cleanup(easy);
  loop_->curl->multi_cleanup(loop_->multi);
}

void HttpClient::start(HttpRequest request, HttpDone done) {
  {
    std::lock_guard lock(loop_->mutex);
    loop_->fresh.emplace_back(std::move(request), std::move(done));
  }
  loop_->curl->multi_wakeup(loop_->multi);
}

void HttpClient::after(int64_t delay_ns, runtime::Task task) {
  {
    std::lock_guard lock(loop_->mutex);
    loop_->timers.push_back({loop_->clock.now_ns() + delay_ns, loop_->sequence++, std::move(task)});
    std::push_heap(loop_->timers.begin(), loop_->timers.end());
  }
  loop_->curl->multi_wakeup(loop_->multi);
}

void HttpClient::set_limit(uint32_t requests) {
  loop_->limit = std::clamp(requests, 1u, loop_->connections);
}

size_t HttpClient::active() const { return loop_->active; }

}  // namespace overlord::store
