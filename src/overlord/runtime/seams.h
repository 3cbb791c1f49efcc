// The seams: everything a role may want from the world, as interfaces. The node gives real ones,
// the simulator gives its own; role code cannot tell. No implementation blocks a role thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/manifest.h"
#include "overlord/model/sample_meta.h"
#include "overlord/runtime/buffer.h"

namespace overlord::runtime {

using Task = std::function<void()>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t now_ns() = 0;  // monotonic
};

// Where CPU work runs. Tasks must not block; a RoleLoop (role_loop.h) keeps one role's tasks in
// order.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void post(Task task) = 0;
  // Run `task` once, `delay_ns` from now at the earliest.
  virtual void post_after(int64_t delay_ns, Task task) = 0;
};

// Shared flag by which a caller withdraws interest. A cancelled request still calls back, once,
// with kCancelled or with its result, whichever comes first.
class CancelToken {
 public:
  CancelToken() : flag_(std::make_shared<std::atomic<bool>>(false)) {}
  void cancel() { flag_->store(true, std::memory_order_relaxed); }
  bool cancelled() const { return flag_->load(std::memory_order_relaxed); }

 private:
  std::shared_ptr<std::atomic<bool>> flag_;
};

struct FileInfo {
  std::string uri;
  model::Fingerprint fingerprint;
};

struct ListedFile {
  std::string uri;
  uint64_t size_bytes = 0;
};

struct ReadRequest {
  std::string uri;
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
  // Refuse with kSourceChanged, naming the shard, when the object is not this one any more.
  model::Fingerprint expected;
};

using ReadDone = std::function<void(Result<Bytes>)>;

// Asynchronous, ranged, cancellable reading of immutable objects named by URI.
class Storage {
 public:
  virtual ~Storage() = default;
  // Calls `done` exactly once, from any thread, never before read() returned on the same stack in
  // a way that recurses without bound. A short object is an error, never a short answer.
  virtual void read(ReadRequest request, CancelToken cancel, ReadDone done) = 0;
  // Blocking calls, for indexing and start-up only; never from a role thread.
  virtual Result<Bytes> read_blocking(const ReadRequest& request) = 0;
  virtual Result<FileInfo> stat(const std::string& uri) = 0;
  // Expand a glob or a plain URI into sorted URIs; an empty match is kNotFound.
  virtual Result<std::vector<std::string>> list(const std::string& pattern) = 0;
  // All files in a folder, whose URI ends with a slash, and below it; sorted, hidden and empty ones
  // too. More than `most` are refused, and a folder without a file is kNotFound.
  virtual Result<std::vector<ListedFile>> list_folder(const std::string& uri, uint64_t most) = 0;
};

// Rows of text in one buffer: row i is [ends[i-1], ends[i]).
struct TextRows {
  std::string bytes;
  std::vector<uint64_t> ends;

  size_t rows() const { return ends.size(); }
  std::string_view row(size_t i) const {
    const uint64_t begin = i == 0 ? 0 : ends[i - 1];
    return std::string_view(bytes).substr(begin, ends[i] - begin);
  }
};

struct EncodedRows {
  std::vector<int32_t> tokens;
  std::vector<uint64_t> ends;  // row i is [ends[i-1], ends[i])
  int64_t elapsed_ns = 0;      // spent on this batch, waiting for a turn not counted; 0: not known
  std::vector<model::BadRow> bad = {};  // rows that came out without tokens; reason alone
  std::vector<uint8_t> mask = {};       // per token: 0 carries no loss; empty: all carry it
};

using EncodeDone = std::function<void(Result<EncodedRows>)>;

// Text to tokens in batches. Implementations call back from a thread of their own.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  virtual void encode(TextRows rows, CancelToken cancel, EncodeDone done) = 0;
};

// Law 6: append -> durable -> apply -> publish. `durable` is called once the record would survive
// the death of the process (file) or at once (memory). A failed append is final; kUnavailable: a
// later term has begun, and what this one writes counts no more.
class Journal {
 public:
  virtual ~Journal() = default;
  virtual void append(std::string record, std::function<void(Status)> durable) = 0;
  // `records` tell all that was told before them, which goes when they are durable: all of them or
  // none. In order with append().
  virtual void compact(std::vector<std::string> records, std::function<void(Status)> durable) = 0;
  // Plans to have in it at most before anybody asks for them, so that nobody waits for its disk.
  virtual uint32_t most_plans_ahead() const { return 0; }
};

// Carries envelopes between roles; order is kept per (from, to) pair, nothing else is promised.
template <typename Envelope>
class Transport {
 public:
  virtual ~Transport() = default;
  virtual void send(Envelope envelope) = 0;
};

}  // namespace overlord::runtime
