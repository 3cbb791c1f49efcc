// From a tokenizer's answer to a TokenBlock: the same checks that ready tokens get.
#pragma once

#include <string>
#include <vector>

#include "overlord/columnar/block_reader.h"
#include "overlord/model/manifest.h"
#include "overlord/model/source.h"
#include "overlord/runtime/seams.h"

namespace overlord::columnar {

// Rows in `bad` and those that a transform left without tokens are bad; ids at or above the
// vocabulary and rows without a token become bad. Bytes of every row's text where the source counts
// them; else nothing.
std::vector<uint32_t> text_bytes(const model::Source& source, const runtime::TextRows& rows);

TokenBlock to_token_block(const model::Source& source, const model::SourceManifest& manifest,
                          uint32_t block, runtime::EncodedRows encoded,
                          std::vector<model::BadRow> bad);

// Why tokens made from a text cannot be used, or nothing.
std::string token_fault(const model::Source& source, const int32_t* tokens, uint64_t count);

// "source web, shard file:///a.jsonl, row 12" for messages; `row` counts inside the block.
std::string row_name(const model::Source& source, const model::SourceManifest& manifest,
                     uint32_t block, uint32_t row);

}  // namespace overlord::columnar
