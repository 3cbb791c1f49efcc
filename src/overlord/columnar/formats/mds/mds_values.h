// Values in columns of MDS by their encoding, and which encodings text, tokens, masks, metadata and
// media may have. What is wrong with a value is a reason of a bad row, or empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/formats/mds/mds_shard.h"
#include "overlord/columnar/index/shard_job.h"
#include "overlord/model/element.h"

namespace overlord::columnar {

// kInvalidArgument where a column cannot be what the source says it is.
Status check_mds_columns(const ShardJob& job, const MdsColumns& columns);

// Numbers of one row, as they lie; not aligned.
struct MdsNumbers {
  model::Element element = model::Element::kI64;
  std::string_view bytes;
};

// A column of arrays, or of bytes that hold `declared` numbers.
std::string take_mds_numbers(const MdsColumn& column, std::optional<model::Element> declared,
                             std::string_view value, MdsNumbers* out);
// What all rows of a column have; nothing: each says it.
std::optional<model::Element> mds_element(const MdsColumn& column,
                                          std::optional<model::Element> declared);

// A number of a metadata column.
std::string take_mds_metadata(const MdsColumn& column, std::string_view value, uint32_t* out);
// The number of an integer column as JSON.
std::string mds_integer(const MdsColumn& column, std::string_view value);

// Whether a column holds several blobs per row.
bool is_mds_list(const MdsColumn& column);
// What a list says first has so many bytes: ...
uint64_t mds_list_head_bytes(const MdsColumn& column);
// ... the number of its blobs, ...
uint64_t mds_list_count(const MdsColumn& column, std::string_view head);
// ... and behind that their sizes. What is wrong, or empty.
std::string mds_list_spans(const MdsColumn& column, std::string_view sizes, uint64_t value_bytes,
                           std::vector<MdsSpan>* out);

}  // namespace overlord::columnar
