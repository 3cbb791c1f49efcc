#include "overlord/transport/wire/wire_session.h"

#include <chrono>

#include "overlord/base/bytes.h"
#include "overlord/base/guarded_by.h"

namespace overlord::transport {
namespace {

constexpr uint64_t kBatchBytes = 1 << 20;
constexpr size_t kBatchFrames = 4096;

}  // namespace

std::string encode_batch(const WireBatch& batch) {
  ByteWriter writer;
  writer.varint(batch.first);
  writer.varint(batch.frames.size());
  for (const WireFrame& frame : batch.frames) {
    writer.varint(frame.bulk);
    if (frame.bulk != 0) {
      writer.varint(frame.size_bytes);
    } else {
      writer.text(frame.bytes);
    }
  }
  return writer.take();
}

Result<WireBatch> decode_batch(std::string_view bytes, const WireLimits& limits) {
  ByteReader reader(bytes);
  WireBatch batch;
  batch.first = reader.varint();
  const size_t count = reader.count(2);
  for (size_t i = 0; i < count && !reader.failed(); ++i) {
    WireFrame frame;
    frame.bulk = reader.varint();
    if (frame.bulk != 0) {
      frame.size_bytes = reader.varint();
      if (frame.size_bytes == 0 || frame.size_bytes > limits.max_frame_bytes) {
        return bad_data("wire: a frame of " + std::to_string(frame.size_bytes) +
                        " bytes, allowed " + std::to_string(limits.max_frame_bytes));
      }
    } else {
      frame.bytes = reader.text();
    }
    batch.frames.push_back(std::move(frame));
  }
  OVERLORD_RETURN_IF_ERROR(reader.status("wire batch"));
  if (batch.first == 0) return bad_data("wire batch: frames are counted from 1");
  return batch;
}

bool WireOutbox::put(std::string frame) {
  if (pulled_ && frame.size() > limits_.bulk_bytes) {
    auto held = std::make_shared<const std::string>(std::move(frame));
    return put_bulk({held, held->data(), held->size()});
  }
  const std::lock_guard lock(mutex_);
  if (closed_) return true;
  if (!fits(frame.size())) return false;
  bytes_ += frame.size();
  frames_.push_back({0, 0, std::move(frame)});
  grown_.notify_all();
  return true;
}

bool WireOutbox::put_held(const runtime::Bytes& frame) {
  if (pulled_ && frame.size > limits_.bulk_bytes) return put_bulk(frame);
  return put(std::string(frame.data, frame.size));
}

bool WireOutbox::put_bulk(runtime::Bytes frame) {
  const std::lock_guard lock(mutex_);
  if (closed_) return true;
  if (!fits(frame.size)) return false;
  bytes_ += frame.size;
  frames_.push_back({++last_bulk_, frame.size, {}});
  bulks_[last_bulk_] = std::move(frame);
  grown_.notify_all();
  return true;
}

bool WireOutbox::fits(uint64_t size_bytes) const {
  return bytes_ == 0 || bytes_ + size_bytes <= limits_.queue_limit_bytes;
}

WireBatch WireOutbox::take(uint64_t acknowledged, int64_t wait_ns) {
  std::unique_lock lock(mutex_);
  is_held(mutex_);
  while (!frames_.empty() && first_ <= acknowledged) {
    if (frames_.front().bulk == 0) bytes_ -= frames_.front().bytes.size();
    frames_.pop_front();
    ++first_;
  }
  grown_.wait_for(lock, std::chrono::nanoseconds(wait_ns),
                  [this]() OVERLORD_REQUIRES(mutex_) { return closed_ || !frames_.empty(); });
  WireBatch batch;
  batch.first = first_;
  uint64_t bytes = 0;
  for (const WireFrame& frame : frames_) {
    if (closed_ || bytes > kBatchBytes || batch.frames.size() >= kBatchFrames) break;
    bytes += frame.bytes.size() + 16;
    batch.frames.push_back(frame);
  }
  return batch;
}

std::optional<runtime::Bytes> WireOutbox::bulk(uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = bulks_.find(number);
  if (found == bulks_.end()) return std::nullopt;
  return found->second;
}

void WireOutbox::release(uint64_t number) {
  runtime::Bytes gone;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  const auto found = bulks_.find(number);
  if (found == bulks_.end()) return;
  bytes_ -= found->second.size;
  gone = std::move(found->second);
  bulks_.erase(found);
}

void WireOutbox::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  bulks_.clear();
  grown_.notify_all();
}

Result<std::vector<WireFrame>> WireInbox::accept(WireBatch batch) {
  if (batch.first > last_ + 1) {
    return bad_data("wire: frame " + std::to_string(batch.first) + " comes after frame " +
                    std::to_string(last_));
  }
  std::vector<WireFrame> fresh;
  for (size_t i = 0; i < batch.frames.size(); ++i) {
    if (batch.first + i <= last_) continue;  // of a call that was repeated
    fresh.push_back(std::move(batch.frames[i]));
    last_ = batch.first + i;
  }
  return fresh;
}

}  // namespace overlord::transport
