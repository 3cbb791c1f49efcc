// RangesFile: a file for Arrow of which only some ranges are there, in memory. Reads are views, not
// copies; a read outside of the ranges is an error. Positions count from `origin`. Used by one
// thread.
#pragma once

#include <arrow/io/interfaces.h>
#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "overlord/columnar/block_reader.h"
#include "overlord/runtime/buffer.h"

namespace overlord::columnar {

class RangesFile final : public arrow::io::RandomAccessFile {
 public:
  RangesFile(uint64_t size_bytes, std::vector<RangeRequest> ranges,
             std::vector<runtime::Bytes> pieces, uint64_t origin = 0)
      : size_bytes_(static_cast<int64_t>(size_bytes - origin)),
        origin_(origin),
        ranges_(std::move(ranges)),
        pieces_(std::move(pieces)) {}

  arrow::Status Close() override;
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Seek(int64_t position) override;
  arrow::Result<int64_t> GetSize() override { return size_bytes_; }
  arrow::Result<int64_t> Read(int64_t nbytes, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t nbytes) override;
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t nbytes, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t nbytes) override;

 private:
  const int64_t size_bytes_;
  const uint64_t origin_;
  const std::vector<RangeRequest> ranges_;
  const std::vector<runtime::Bytes> pieces_;
  int64_t position_ = 0;
  bool closed_ = false;
};

}  // namespace overlord::columnar
