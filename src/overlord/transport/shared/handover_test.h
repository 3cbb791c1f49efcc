// Test support of this room: the smallest owner and reader of shared buffers, as the engine will
// have them. The owner keeps some buffers in each reader's hands and gives a new one for each that
// comes back; a reader checks every byte when it gets a buffer and again before it lets go.
#pragma once

#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "overlord/base/bytes.h"
#include "overlord/transport/shared/lease_book.h"
#include "overlord/transport/shared/segment_map.h"
#include "overlord/transport/shared/shared_pool.h"
#include "overlord/transport/unix_link.h"

namespace overlord::transport {

struct HandOver {
  SegmentRef ref;
  uint64_t size_bytes = 0;
  Lease lease;

  std::string encode(uint64_t segment_bytes) const {
    ByteWriter out;
    out.u64(ref.segment);
    out.u64(ref.offset);
    out.u64(size_bytes);
    out.u32(lease.number);
    out.u64(lease.generation);
    out.u64(segment_bytes);
    return out.take();
  }
};

inline char pattern(uint64_t generation, size_t i) {
  return static_cast<char>(generation * 131 + i / 64);
}

class HandOverOwner {
 public:
  HandOverOwner(std::shared_ptr<SharedPool> pool, size_t in_hands, size_t buffer_bytes)
      : pool_(std::move(pool)), in_hands_(in_hands), buffer_bytes_(buffer_bytes) {}

  LinkCallbacks accept(UnixLink& link) {
    book.add_peer(link.id());
    return {[this](UnixLink& from, ReceivedFrame frame) { released(from, frame); },
            [this](UnixLink& from, const Status&) {
              deaths_with_leases += book.drop_peer(from.id()) > 0;
              passed_.erase(from.id());
              ++ended;
            }};
  }

  LeaseBook book;
  std::atomic<uint64_t> deaths_with_leases{0}, ended{0}, refused{0};

 private:
  // An empty frame greets, any other names a lease that came back.
  void released(UnixLink& link, const ReceivedFrame& frame) {
    if (frame.payload.size == 0) {
      for (size_t i = 0; i < in_hands_; ++i) hand_over(link);
      return;
    }
    ByteReader in({frame.payload.data, frame.payload.size});
    Lease lease;
    lease.number = in.u32();
    lease.generation = in.u64();
    book.release(link.id(), lease);
    hand_over(link);
  }

  void hand_over(UnixLink& link) {
    Result<runtime::Buffer> buffer = pool_->acquire(buffer_bytes_);
    if (!buffer.ok()) {
      ++refused;
      return;
    }
    HandOver message;
    message.ref = *pool_->find(buffer->data.get());
    message.size_bytes = buffer_bytes_;
    const Result<Lease> lease = book.grant(link.id(), buffer->data, buffer_bytes_);
    if (!lease.ok()) return;
    message.lease = *lease;
    for (size_t i = 0; i < buffer_bytes_; ++i) {
      buffer->data.get()[i] = pattern(lease->generation, i);
    }
    OutgoingFrame frame;
    const auto segment = pool_->segment(message.ref.segment);
    if (passed_[link.id()].insert(segment->id()).second) {
      frame.descriptors.push_back(pool_->held_descriptor(segment->id()));
    }
    frame.pieces = {runtime::Bytes::copy_of(message.encode(segment->size_bytes()))};
    [[maybe_unused]] const Status sent = link.send(std::move(frame));
  }

  const std::shared_ptr<SharedPool> pool_;
  const size_t in_hands_;
  const size_t buffer_bytes_;
  std::map<uint64_t, std::set<SegmentId>> passed_;  // the loop's thread only
};

class HandOverReader {
 public:
  // Keeps `hold` views before it lets go of the oldest.
  explicit HandOverReader(size_t hold) : hold_(hold) {}

  LinkCallbacks callbacks() {
    return {[this](UnixLink& link, ReceivedFrame frame) { received(link, std::move(frame)); },
            [this](UnixLink&, const Status&) { closed = true; }};
  }

  std::atomic<uint64_t> seen{0}, wrong{0};
  std::atomic<bool> closed{false};

 private:
  struct Held {
    runtime::Bytes view;
    uint64_t generation;
  };

  void received(UnixLink& link, ReceivedFrame frame) {
    ByteReader in({frame.payload.data, frame.payload.size});
    HandOver message;
    message.ref.segment = in.u64();
    message.ref.offset = in.u64();
    message.size_bytes = in.u64();
    message.lease.number = in.u32();
    message.lease.generation = in.u64();
    const uint64_t segment_bytes = in.u64();
    if (!frame.descriptors.empty()) {
      wrong += !map_.add(message.ref.segment, segment_bytes, std::move(frame.descriptors[0])).ok();
    }
    auto view = map_.view(message.ref, message.size_bytes,
                          [lease = message.lease, owner = link.weak_from_this()] {
                            ByteWriter out;
                            out.u32(lease.number);
                            out.u64(lease.generation);
                            const auto alive = owner.lock();
                            if (alive) [[maybe_unused]]
                              const Status sent = alive->send(out.take());
                          });
    if (!view.ok()) {
      ++wrong;
      return;
    }
    held_.push_back({std::move(*view), message.lease.generation});
    check(held_.back());
    ++seen;
    while (held_.size() > hold_) {
      check(held_.front());
      held_.pop_front();
    }
  }

  void check(const Held& held) {
    for (size_t i = 0; i < held.view.size; ++i) {
      if (held.view.data[i] != pattern(held.generation, i)) {
        ++wrong;
        return;
      }
    }
  }

  const size_t hold_;
  SegmentMap map_;
  std::deque<Held> held_;
};

}  // namespace overlord::transport
