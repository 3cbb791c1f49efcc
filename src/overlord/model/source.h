// Source: one dataset with a name, files and a transform chain, as the config declares it.
// A value checked by the config layer before any thread starts. Its canonical encoding
// (protocol/spec_codec.h) enters the config digest, except where a field says otherwise.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/model/element.h"
#include "overlord/model/row_schema.h"
#include "overlord/model/transform.h"

namespace overlord::model {

// jsonl, csv, webdataset (tar) and mds cover .gz and .zst by suffix.
enum class Format : uint8_t {
  kParquet,
  kJsonl,
  kMegatron,
  kWebdataset,
  kArrow,
  kTokens,
  kMds,
  kCsv,
  kFolder,
  kRows
};

// Formats that are tokens without columns, whose index always has lengths.
constexpr bool is_bare_tokens(Format format) {
  return format == Format::kMegatron || format == Format::kTokens;
}

enum class Shuffle : uint8_t { kNone, kWindow, kFull };
enum class EndPolicy : uint8_t { kRepeat, kDrop, kStop };
enum class OverLength : uint8_t { kSplit, kTruncate, kDrop };
enum class EmptyRows : uint8_t { kBad, kSkip };
// What a shadow does while it stands by: kWarm reads what plans name, kLean only remembers plans.
enum class ShadowKind : uint8_t { kWarm, kLean };
inline constexpr uint32_t kMostShadows = 3;  // of one slot

// Who decodes media. Packed ones travel as they are stored, to the constructor. kAuto: there, where
// the job has several hosts and that at least halves the bytes that go to it.
enum class DecodeAt : uint8_t { kAuto, kLoader, kConstructor };

// How text becomes tokens. kNone: the source holds ready tokens.
enum class TokenizerKind : uint8_t { kNone, kBytes, kHuggingface };

struct Tokenizer {
  TokenizerKind kind = TokenizerKind::kNone;
  std::string path;    // tokenizer.json; not in the digest, its content is
  std::string digest;  // hex digest of the tokenizer's content and options; "bytes" for kBytes
  bool add_special_tokens = false;
  // Of rows that are conversations: template, format and options as JSON (docs/chat.md); `digest`
  // covers it. Empty: rows are text.
  std::string chat = {};

  OVERLORD_FIELDS(kind, path, digest, add_special_tokens, chat)
};

// What one bad file or row may cost, checked before memory is allocated.
struct SourceLimits {
  uint64_t max_document_bytes = 64ull << 20;  // one JSON line, one text, one token list
  uint64_t max_block_bytes = 1ull << 30;      // one decoded row group or JSONL block
  uint32_t max_expansion = 1000;              // decompressed over compressed bytes
  uint64_t max_media_bytes = 256ull << 20;    // one image, clip or video as it is stored

  OVERLORD_FIELDS(max_document_bytes, max_block_bytes, max_expansion, max_media_bytes)
};

inline constexpr size_t kMaxMetadataColumns = 32;  // of one source

// Rows of a sub-source, cut out of a source by a metadata column: those in [least, most].
// The others are passed over: their positions are used up, and they are no bad rows.
struct RowFilter {
  std::string column;
  uint32_t least = 0;
  uint32_t most = 0xffffffffu;

  OVERLORD_FIELDS(column, least, most)
};

// The rows of a source that one stream of several reads: those whose place in the division, a hash
// of the shard's bytes and the row's number in it (plan/select/row_division.h), is in [least,
// most].
struct RowPart {
  uint32_t least = 0;
  uint32_t most = 0xffffffffu;

  OVERLORD_FIELDS(least, most)
};

// Rows that stay together: `rows` that follow each other in a shard, or those that do and have the
// same value in one of metadata_columns.
struct RowGroups {
  uint32_t rows = 0;
  std::string column;

  bool declared() const { return rows > 0 || !column.empty(); }

  OVERLORD_FIELDS(rows, column)
};

// How documents are told apart in an array of tokens: by the token that ends or begins each, which
// is part of it, or by their length.
enum class DocumentCut : uint8_t { kNone, kEnd, kBegin, kLength };

// Tokens that lie as bare numbers: all of Format::kTokens, and columns of bytes (Format::kMds),
// which have an element alone.
struct RawTokens {
  std::optional<Element> element;  // where no header says it
  DocumentCut cut = DocumentCut::kNone;
  uint32_t value = 0;  // the token, or the length

  OVERLORD_FIELDS(element, cut, value)
};

inline constexpr size_t kMaxMediaFields = 16;   // of one source
inline constexpr uint32_t kMaxRowBlobs = 4096;  // of one field in one row; more make a bad row

// What a blob is: which chains can read it (media/field_chain.h).
enum class MediaKind : uint8_t { kImage, kAudio, kVideo };

// What becomes of a blob in the stream: it is decoded and transformed, travels with its document
// and has a place among the document's tokens. docs/media.md.
struct MediaUse {
  MediaKind kind = MediaKind::kImage;
  std::string transform;  // the chain's text form with every value named (media/field_chain.h)
  std::string decoder;    // fingerprint of the codecs where decoding is not exact by construction
  // For every blob: `before`, then `pad` as often as the transformed blob has tokens, then `after`.
  // None of them carries loss.
  std::optional<uint32_t> pad;
  std::optional<uint32_t> before;
  std::optional<uint32_t> after;
  // Placeholders of each part of an item (tile, chunk): so many, or one for every so many of its
  // units (patches, frames), rounded up. Both 0: what the chain says.
  uint32_t pads = 0;
  uint32_t units_per_pad = 0;
  // They take the place of one `pad` per blob that the row's own tokens have; else they stand
  // before them.
  bool in_text = false;
  Transform function = {};  // over what the chain gives; changes values, never shapes

  friend bool operator==(const MediaUse&, const MediaUse&) = default;

  OVERLORD_FIELDS(kind, transform, decoder, pad, before, after, pads, units_per_pad, in_text,
                  function)
};

// Bytes that a row has beside its text: an image, an audio clip. What they hold is not looked at
// here. WebDataset: the member extensions that count, the first one that a sample has wins.
// Parquet, Arrow and MDS: exactly one column: binary, struct{bytes, path}, or the path of a file
// beside the shard or below `root`. JSON: fields with such a path; the first that a row has counts.
// A row without it has no blob.
// Many: any number of blobs, in order. WebDataset: members NUMBER.EXTENSION, by number, or one
// plain EXTENSION, which is number 0. Parquet and JSON: a list of what else is one; nulls in it are
// left out.
struct MediaField {
  std::string name;
  std::vector<std::string> from;
  std::optional<MediaUse> use = std::nullopt;  // without: bytes that can be read, and do not travel
  bool many = false;
  // What paths in rows are relative to: the URI of a folder, which ends with a slash, or of a tar
  // whose members they name; empty: the shard's directory. Not in the digest, like `files`.
  std::string root = {};
  // Columns with the seconds at which the part of a sound or clip that counts begins and ends: of
  // formats whose rows have columns. Empty: its begin, its end.
  std::string start = {};
  std::string end = {};

  bool has_part() const { return !start.empty() || !end.empty(); }
  friend bool operator==(const MediaField&, const MediaField&) = default;

  OVERLORD_FIELDS(name, from, use, many, root, start, end)
};

// What a source cost its loaders in the run before, all together; nothing of it is in the digest.
struct SourceCost {
  uint64_t elapsed_ns = 0;  // of the run; 0: nobody has measured it
  uint64_t work_ns = 0;     // of CPUs
  uint64_t wait_ns = 0;     // for storage
  uint64_t send_ns = 0;     // to hand documents to constructors
  uint64_t media_ns = 0;    // of CPUs, to decode media, each blob once, whoever did it
  uint64_t documents = 0, tokens = 0;

  uint64_t worked_ns() const { return work_ns + send_ns; }
  // That a worker was at it.
  uint64_t busy_ns() const { return worked_ns() + wait_ns; }
  // Thousandths of a core that its loaders kept busy.
  uint64_t millicores() const { return millicores_of(worked_ns()); }
  uint64_t decode_millicores() const { return millicores_of(media_ns); }
  uint64_t millicores_of(uint64_t ns) const {
    if (elapsed_ns == 0) return 0;
    return static_cast<uint64_t>(static_cast<unsigned __int128>(ns) * 1000 / elapsed_ns);
  }

  friend bool operator==(const SourceCost&, const SourceCost&) = default;

  OVERLORD_FIELDS(elapsed_ns, work_ns, wait_ns, send_ns, media_ns, documents, tokens)
};

struct Source {
  std::string name;
  Format format = Format::kParquet;
  std::vector<std::string> files;  // URIs, sorted; not in the digest, the manifest's shards are
  std::string text_column;         // exactly one of text_column and token_column is set
  std::string token_column;        // (Megatron: both empty)
  std::string mask_column;         // optional: per-token loss mask beside token_column
  // Integer columns that the planner sees beside the token count (images, patches, a quality
  // score); sorted. What a source does not have counts as 0.
  std::vector<std::string> metadata_columns;
  std::optional<RowFilter> filter;  // by one of metadata_columns
  std::vector<MediaField> media;    // sorted by name
  Tokenizer tokenizer;
  std::optional<uint32_t> bos;  // put before each document
  std::optional<uint32_t> eod;  // put after each document
  uint32_t vocabulary = 0;      // ids at or above it are bad data; always checked
  Shuffle shuffle = Shuffle::kWindow;
  uint32_t window_rows = 2048;         // about so many rows make a shuffle window ...
  uint64_t window_bytes = 4ull << 20;  // ... unless they are large: then about so many bytes do
  EndPolicy at_end = EndPolicy::kRepeat;
  OverLength over_length = OverLength::kSplit;
  // Quarantine budget per pass; 0: the first bad row stops the run. Not in the digest: it decides
  // where a run gives up, never what it holds.
  uint32_t bad_rows_allowed = 0;
  bool allow_duplicates = false;  // one shard, or two of the same content, may be listed twice
  SourceLimits limits;
  uint32_t loaders = 1;  // slots; not in the digest: who reads never changes what is read
  uint32_t workers = 1;  // blocks in work at once per slot; not in the digest
  // The mixture counts bytes, so metadata has those of every document's text; not in the digest,
  // the mixture's unit is.
  bool count_bytes = false;
  Transform transform;                   // of text, before it is tokenised
  DecodeAt decode_at = DecodeAt::kAuto;  // not in the digest: who decodes never changes the bytes
  RowSchema schema;                      // where the text is made of more than text_column
  // Rows without text or tokens. Skipped ones use up their position, and are no bad rows.
  EmptyRows empty = EmptyRows::kBad;
  // Further homes of every slot, in other processes, that take over when its own dies. Neither is
  // in the digest.
  uint32_t shadows = 0;
  ShadowKind shadow = ShadowKind::kWarm;
  // To how many slots it may grow while the stream runs; not in the digest. `loaders` or less: as
  // many as it starts with.
  uint32_t most_loaders = 0;
  SourceCost measured;  // by the profile of the run before; not in the digest
  // False: this host has none of the files, and its loaders live elsewhere. Not in the digest.
  bool files_here = true;
  std::optional<RowPart> part;
  RowGroups groups;
  RawTokens raw;

  uint32_t slots() const { return std::max(loaders, most_loaders); }  // that there are

  OVERLORD_FIELDS(name, format, files, text_column, token_column, mask_column, metadata_columns,
                  filter, media, tokenizer, bos, eod, vocabulary, shuffle, window_rows,
                  window_bytes, at_end, over_length, bad_rows_allowed, allow_duplicates, limits,
                  loaders, workers, count_bytes, transform, decode_at, schema, empty, shadows,
                  shadow, most_loaders, measured, files_here, part, groups, raw)
};

// Whether documents have a loss mask of their own, so that metadata needs more than their lengths.
inline bool carries_mask(const Source& source) {
  return !source.mask_column.empty() || source.schema.masked;
}

// Where the text of a row lies, in words that an index keeps.
inline std::string text_place(const Source& source) {
  if (!source.schema.declared()) return source.text_column;
  std::string names;
  for (const std::string& column : source.schema.columns) {
    names += (names.empty() ? "" : ", ") + column;
  }
  if (source.schema.text == RowText::kInterleaved) return "interleaved of " + names;
  return (source.schema.branches > 1 ? "branches of " : "record of ") + names;
}

// All that its rows and blobs may lie in, as URIs and patterns: for whoever opens storage.
inline std::vector<std::string> places_of(const Source& source) {
  std::vector<std::string> places;
  if (source.format != Format::kRows) places = source.files;
  for (const MediaField& field : source.media) {
    if (!field.root.empty()) places.push_back(field.root);
  }
  return places;
}

// Where the tokens of a row lie, in words that an index keeps.
inline std::string token_place(const Source& source) {
  std::string place = source.token_column;
  if (source.raw.element) place += " as " + std::string(element_name(*source.raw.element));
  const std::string value = std::to_string(source.raw.value);
  switch (source.raw.cut) {
    case DocumentCut::kNone:
      return place;
    case DocumentCut::kEnd:
      return place + " until token " + value;
    case DocumentCut::kBegin:
      return place + " from token " + value;
    case DocumentCut::kLength:
      return place + " by " + value + " tokens";
  }
  return place;
}

// What stands for the way from a row's text to its tokens, where lengths were counted with it.
inline std::string text_digest(const Source& source) {
  std::string digest = source.tokenizer.digest;
  if (source.transform.declared()) digest += " after " + source.transform.key();
  if (source.schema.text == RowText::kInterleaved) {
    digest += " of texts with " + source.schema.marker + " between " + source.schema.separator;
  }
  return digest;
}

// Whether documents of the source carry media through the stream.
inline bool delivers_media(const Source& source) {
  for (const MediaField& field : source.media) {
    if (field.use) return true;
  }
  return false;
}

// Whether a function of a user's runs over a delivered field.
inline bool calls_media_function(const MediaField& field) {
  return field.use && field.use->function.declared();
}

// Whether the row's own tokens have the places of its media.
inline bool places_media_in_text(const Source& source) {
  for (const MediaField& field : source.media) {
    if (field.use && field.use->in_text) return true;
  }
  return false;
}

// The metadata columns that every source with a delivered media field has beside its declared ones.
inline std::string count_column(const MediaField& field) { return field.name + "_count"; }
inline std::string units_column(const MediaField& field) {
  const bool sound = field.use && field.use->kind == MediaKind::kAudio;
  return field.name + (sound ? "_frames" : "_patches");
}

// Bad rows a source may have shown by the time it is in `pass`: a repeated pass shows them again.
inline uint64_t bad_rows_budget(uint32_t allowed, uint32_t pass) {
  return uint64_t{allowed} * (uint64_t{pass} + 1);
}
inline uint64_t bad_rows_budget(const Source& source, uint32_t pass) {
  return bad_rows_budget(source.bad_rows_allowed, pass);
}

}  // namespace overlord::model
