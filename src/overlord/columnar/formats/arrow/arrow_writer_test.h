// Test support: tables as Arrow IPC, streams and files, as other writers make them.
#pragma once

#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/writer.h>
#include <arrow/util/compression.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "overlord/model/source.h"

namespace overlord::columnar {

using Cells = std::vector<std::optional<std::string>>;

inline std::shared_ptr<arrow::Array> bytes_array(const Cells& values,
                                                 const std::shared_ptr<arrow::DataType>& type) {
  const auto builder = *arrow::MakeBuilder(type);
  for (const auto& value : values) {
    arrow::Status status = arrow::Status::OK();
    if (!value) {
      status = builder->AppendNull();
    } else if (arrow::is_large_binary_like(type->id())) {
      status = static_cast<arrow::LargeBinaryBuilder&>(*builder).Append(*value);
    } else {
      status = static_cast<arrow::BinaryBuilder&>(*builder).Append(*value);
    }
    EXPECT_TRUE(status.ok());
  }
  return *builder->Finish();
}

inline std::shared_ptr<arrow::Table> text_table(const Cells& texts) {
  return arrow::Table::Make(arrow::schema({arrow::field("text", arrow::utf8())}),
                            {bytes_array(texts, arrow::utf8())});
}

struct IpcForm {
  bool file = false;
  int64_t batch_rows = 2;
  arrow::Compression::type compression = arrow::Compression::UNCOMPRESSED;
  bool legacy = false;  // as before Arrow 0.15
};

inline std::string ipc_bytes(const arrow::Table& table, const IpcForm& form = {}) {
  const auto sink = *arrow::io::BufferOutputStream::Create();
  arrow::ipc::IpcWriteOptions options;
  options.write_legacy_ipc_format = form.legacy;
  if (form.compression != arrow::Compression::UNCOMPRESSED) {
    options.codec = *arrow::util::Codec::Create(form.compression);
  }
  const auto writer = form.file ? *arrow::ipc::MakeFileWriter(sink, table.schema(), options)
                                : *arrow::ipc::MakeStreamWriter(sink, table.schema(), options);
  EXPECT_TRUE(writer->WriteTable(table, form.batch_rows).ok());
  EXPECT_TRUE(writer->Close().ok());
  return (*sink->Finish())->ToString();
}

inline model::Source arrow_source(const std::string& uri) {
  model::Source source;
  source.name = "hub";
  source.format = model::Format::kArrow;
  source.files = {uri};
  source.text_column = "text";
  return source;
}

}  // namespace overlord::columnar
