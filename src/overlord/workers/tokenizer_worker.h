// TokenizerWorker: one seat of a TokenizerPool, the process that sits in it now and the two tries a
// batch gets. Used by one thread; owned by the pool's thread for that seat.
// A process that dies, hangs or sends garbage is killed, and the batch goes once more to a fresh
// one. It never waits beyond a deadline or a stop, and never leaves a process behind.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "overlord/base/status.h"
#include "overlord/runtime/seams.h"
#include "overlord/workers/living_workers.h"
#include "overlord/workers/tokenizer_frames.h"
#include "overlord/workers/worker_process.h"

namespace overlord::workers {

struct TokenizerWorkerSettings {
  WorkerCommand command;
  int64_t start_deadline_ns = 0;     // from the start to the greeting
  int64_t progress_deadline_ns = 0;  // without a byte in either direction
  int stop_descriptor = -1;          // not owned; readable: give up with kCancelled
  uint64_t template_bytes = 0;       // see TokenizerPoolOptions
  // Asked once per process; a Status that is not ok ends the request without a second try.
  std::function<Status(const TokenizerGreeting&)> admit;
};

// Written by the worker's thread, read by anyone.
struct TokenizerWorkerCounters {
  std::atomic<uint64_t> starts{0};    // processes started
  std::atomic<uint64_t> failures{0};  // tries that ended with a dead process
  LivingWorkers living;
};

// What every worker says, read from it. Bytes that break the protocol are kUnavailable.
Result<TokenizerFrameHead> receive_head(WorkerProcess& process, int64_t progress_ns);
Result<std::string> receive_text(WorkerProcess& process, uint32_t size_bytes, int64_t progress_ns);
// `refused` with the worker's message behind it: it has none to give.
Result<TokenizerGreeting> receive_greeting(WorkerProcess& process, int64_t progress_ns,
                                           const Status& refused);

class TokenizerWorker {
 public:
  TokenizerWorker(const TokenizerWorkerSettings& settings, TokenizerWorkerCounters& counters)
      : settings_(settings), counters_(counters) {}
  ~TokenizerWorker() { leave(); }
  TokenizerWorker(const TokenizerWorker&) = delete;
  TokenizerWorker& operator=(const TokenizerWorker&) = delete;

  // kBadData with the worker's own message, kUnavailable after the second failure (with the exit
  // status and the last lines of stderr; kills by others are forgiven, up to a limit), kCancelled,
  // or what `admit` said.
  Result<runtime::EncodedRows> encode(const runtime::TextRows& rows,
                                      const runtime::CancelToken& cancel);
  // Starts a process if there is none, with the same two tries.
  Result<TokenizerGreeting> greet();
  // Lets the process leave, or makes it.
  void leave();

 private:
  template <typename T>
  Result<T> in_two_tries(const std::function<Result<T>()>& attempt,
                         const runtime::CancelToken& cancel);
  Status ensure_process();
  Result<runtime::EncodedRows> exchange(const runtime::TextRows& rows);
  Result<runtime::EncodedRows> read_answer(const runtime::TextRows& rows);
  Status read_mask(uint32_t rows, runtime::EncodedRows* answer);
  std::string bury(const Status& failure, bool* killed);

  const TokenizerWorkerSettings& settings_;
  TokenizerWorkerCounters& counters_;
  std::unique_ptr<WorkerProcess> process_;
  TokenizerGreeting greeting_;  // of process_
};

}  // namespace overlord::workers
