// Writes shards of MDS by hand, as MosaicML's streaming does.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "overlord/base/bytes.h"

namespace overlord::columnar {

struct MdsTestColumn {
  std::string name;
  std::string encoding;
  std::string size = "null";  // as JSON
};

inline std::string mds_list(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return "[" + text + "]";
}

// `rows`: encoded values in the order of the columns.
inline std::string mds_shard(const std::vector<MdsTestColumn>& columns,
                             const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::string> names, encodings, sizes;
  for (const MdsTestColumn& column : columns) {
    names.push_back("\"" + column.name + "\"");
    encodings.push_back("\"" + column.encoding + "\"");
    sizes.push_back(column.size);
  }
  const std::string config =
      "{\"column_encodings\": " + mds_list(encodings) + ", \"column_names\": " + mds_list(names) +
      ", \"column_sizes\": " + mds_list(sizes) + ", \"format\": \"mds\", \"version\": 2}";
  std::vector<std::string> samples;
  for (const std::vector<std::string>& row : rows) {
    ByteWriter said;
    std::string values;
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i].size == "null") said.u32(static_cast<uint32_t>(row[i].size()));
      values += row[i];
    }
    samples.push_back(said.take() + values);
  }
  ByteWriter head;
  head.u32(static_cast<uint32_t>(rows.size()));
  uint64_t at = 4 * (rows.size() + 2) + config.size();
  head.u32(static_cast<uint32_t>(at));
  for (const std::string& sample : samples) {
    head.u32(static_cast<uint32_t>(at += sample.size()));
  }
  std::string shard = head.take() + config;
  for (const std::string& sample : samples) shard += sample;
  return shard;
}

// A shard with one column of each kind that is read.
inline std::string some_mds_shard() {
  const std::string eight("\x05\0\0\0\0\0\0\0", 8);
  const std::string array("\x04\x02\x07\0\x08\0", 6);  // one dimension of two, 7 and 8
  ByteWriter list;
  for (const uint32_t value : {0u, 2u, 3u, 1u}) list.u32(value);
  const std::string images = list.take() + "abcd";
  const std::vector<std::string> row = {"image", images, eight, "words of text", array};
  return mds_shard({{"image", "jpeg"},
                    {"images", "list[png]"},
                    {"n", "int", "8"},
                    {"text", "str"},
                    {"tokens", "ndarray:uint16"}},
                   {row, row, row});
}

}  // namespace overlord::columnar
