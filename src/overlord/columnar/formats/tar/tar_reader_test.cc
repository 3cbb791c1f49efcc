#include "overlord/columnar/formats/tar/tar_reader.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include "overlord/columnar/formats/tar/foreign_tar_test.h"
#include "overlord/columnar/formats/tar/tar_writer_test.h"
#include "overlord/columnar/reading_test.h"

namespace overlord::columnar {
namespace {

std::string gzipped(const std::string& bytes) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd_frames(const std::string& bytes, size_t frame_bytes) {
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += frame_bytes) {
    const std::string part = bytes.substr(at, frame_bytes);
    std::string frame(ZSTD_compressBound(part.size()), '\0');
    frame.resize(ZSTD_compress(frame.data(), frame.size(), part.data(), part.size(), 3));
    out += frame;
  }
  return out;
}

std::string image_of(int i) {
  std::string image = "image" + std::to_string(i);
  uint64_t state = static_cast<uint64_t>(i) + 1;
  for (int j = 0; j < 5000 + 300 * i; ++j) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    image += static_cast<char>(state >> 56);
  }
  return image;
}

std::string pairs(int count) {
  TarWriter tar;
  for (int i = 0; i < count; ++i) {
    const std::string key = "d/" + std::to_string(i);
    tar.add(key + (i % 2 == 0 ? ".jpg" : ".PNG"), image_of(i));
    tar.add(key + ".json",
            "{\"width\": " + std::to_string(i) + ", \"caption\": \"c" + std::to_string(i) + "\"}");
    tar.add(key + ".txt", "text " + std::to_string(i));
  }
  return tar.finished();
}

void expect_pairs(const std::string& uri, const std::string& bytes, int count, bool ranged) {
  runtime::MemoryStorage storage;
  storage.put(uri, bytes);
  model::Source source = tar_source(uri);
  source.metadata_columns = {"width"};
  IndexOptions options;
  options.block_bytes = 64 << 10;
  const auto index = build(storage, source, options);
  ASSERT_TRUE(index.ok()) << index.status().message();
  const auto rows = read_all(storage, **index);
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  ASSERT_EQ(rows->texts.size(), static_cast<size_t>(count));
  EXPECT_TRUE(rows->bad.empty());
  const auto reader = (*index)->reader();
  for (uint32_t block = 0; block < (*index)->manifest().blocks.size(); ++block) {
    const model::BlockEntry& entry = (*index)->manifest().blocks[block];
    const BlockRequest request{block, {entry.rows - 1}, nullptr};
    const auto places = (*reader)->media_places(request);
    ASSERT_TRUE(places.ok() && places->blobs.size() == 1);
    EXPECT_EQ(places->blobs.front().kind,
              ranged ? MediaPlace::Kind::kRange : MediaPlace::Kind::kDecoded);
    const auto blobs = read_media(storage, (*index)->manifest(), **reader, {block, {}, nullptr});
    ASSERT_TRUE(blobs.ok()) << blobs.status().message();
    ASSERT_EQ(blobs->size(), entry.rows);
    for (uint32_t i = 0; i < entry.rows; ++i) {
      const int row = static_cast<int>(entry.first_row + i);
      EXPECT_EQ(texts_of((*blobs)[i]), std::vector{image_of(row)}) << row;
      EXPECT_EQ((*index)->media_sizes(0)[entry.first_row + i], image_of(row).size());
      EXPECT_EQ(rows->texts[entry.first_row + i], "text " + std::to_string(row));
      EXPECT_EQ((*index)->manifest().columns[0][entry.first_row + i], static_cast<uint32_t>(row));
    }
  }
}

TEST(TarReader, TextMetadataAndMediaPlainAndCompressed) {
  const std::string tar = pairs(60);
  expect_pairs("mem:/a.tar", tar, 60, true);
  expect_pairs("mem:/a.tar.gz", gzipped(tar), 60, false);
  expect_pairs("mem:/a.tgz", gzipped(tar), 60, false);
  expect_pairs("mem:/a.tar.zst", zstd_frames(tar, 50'000), 60, false);
  expect_pairs("mem:/one.tar.zst", zstd_frames(tar, tar.size()), 60, false);
}

TEST(TarReader, TextFromAFieldOfJson) {
  runtime::MemoryStorage storage;
  storage.put("mem:/a.tar", pairs(3));
  model::Source source = tar_source("mem:/a.tar");
  source.text_column = "json:caption";
  const auto index = build(storage, source);
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ(read_all(storage, **index)->texts, (std::vector<std::string>{"c0", "c1", "c2"}));
}

TEST(TarReader, BadSamplesAreBadRowsAndCostNoOthers) {
  TarWriter tar;
  tar.add("a.txt", "good");
  tar.add("b.jpg", "no text");
  tar.add("c.txt", "one");
  tar.add("c.txt", "two");
  tar.add("a.txt", "again");
  tar.add("e.txt", "\xff\xfe");
  tar.add("f.txt", "  ");
  tar.add("g.txt", std::string(200, 'g'));
  tar.add("h.txt", "good too");
  runtime::MemoryStorage storage;
  storage.put("mem:/a.tar", tar.finished());
  storage.put("mem:/a.tar.gz", gzipped(tar.finished()));
  for (const char* uri : {"mem:/a.tar", "mem:/a.tar.gz"}) {
    model::Source source = tar_source(uri);
    source.limits.max_document_bytes = 100;
    const auto index = build(storage, source);
    ASSERT_TRUE(index.ok()) << index.status().message();
    const auto rows = read_all(storage, **index);
    ASSERT_TRUE(rows.ok()) << rows.status().message();
    ASSERT_EQ(rows->texts.size(), 8u);
    EXPECT_EQ(rows->texts.front(), "good");
    EXPECT_EQ(rows->texts.back(), "good too");
    ASSERT_EQ(rows->bad.size(), 6u);
    const char* const reasons[] = {"no member .txt; it has .jpg",
                                   "two members .txt",
                                   "came before, as row 0",
                                   "not valid UTF-8",
                                   "empty text",
                                   "over limits.max_document"};
    for (size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(rows->bad[i].first, i + 1);
      EXPECT_TRUE(contains(rows->bad[i].second, reasons[i])) << rows->bad[i].second;
    }
  }
}

TEST(TarReader, DamageNamesTheShard) {
  runtime::MemoryStorage storage;
  storage.put("mem:/cut.tar", pairs(3).substr(0, 4000));
  storage.put("mem:/wrong.tar", gzipped(pairs(3)));
  const auto told = [&](const char* uri) {
    return build(storage, tar_source(uri)).status().message();
  };
  EXPECT_TRUE(contains(told("mem:/cut.tar"), "shard 'mem:/cut.tar': is cut short"));
  EXPECT_TRUE(contains(told("mem:/wrong.tar"), "name it .tar.gz"));
}

// A file that was cut exactly behind a member looks whole: only its end mark tells.
TEST(TarReader, ATarWithoutItsEndHasABadRowForWhatIsMissing) {
  const std::string whole = pairs(3);
  const size_t members = whole.size() - 1024;
  const auto bad_of = [](const std::string& uri, const std::string& bytes) {
    runtime::MemoryStorage storage;
    storage.put(uri, bytes);
    const auto index = build(storage, tar_source(uri));
    EXPECT_TRUE(index.ok()) << index.status().message();
    const auto rows = read_all(storage, **index);
    EXPECT_TRUE(rows.ok() && !rows->texts.empty());
    return rows->bad;
  };
  const auto cut = whole.substr(0, members);
  const auto past_padding = whole.substr(0, members - 500);  // the last text has six bytes
  for (const auto& [uri, bytes] : std::vector<std::pair<std::string, std::string>>{
           {"mem:/a.tar", cut},
           {"mem:/b.tar", past_padding},
           {"mem:/a.tar.gz", gzipped(cut)},
           {"mem:/a.tar.zst", zstd_frames(cut, 5000)}}) {
    const auto bad = bad_of(uri, bytes);
    ASSERT_EQ(bad.size(), 1u) << uri;
    EXPECT_EQ(bad[0].first, 3u);
    const size_t at = uri == "mem:/b.tar" ? past_padding.size() : cut.size();
    for (const std::string& part : {"'" + uri + "'", "offset " + std::to_string(at),
                                    std::string("behind sample 'd/2'"), std::string("zero")}) {
      EXPECT_TRUE(contains(bad[0].second, part)) << bad[0].second;
    }
  }
  // Half a mark is one, and so is one with the padding of GNU tar behind it.
  for (const size_t zeros : {512u, 700u, 1024u, 10240u}) {
    EXPECT_TRUE(bad_of("mem:/a.tar", cut + std::string(zeros, '\0')).empty()) << zeros;
    EXPECT_TRUE(bad_of("mem:/a.tar.gz", gzipped(cut + std::string(zeros, '\0'))).empty()) << zeros;
  }
}

class FirstByte final : public MediaProbe {
 public:
  std::string version() const override { return "first-byte/1"; }
  uint32_t head_bytes() const override { return 6; }
  uint32_t values_per_blob() const override { return 1; }
  std::string look(const model::MediaField& field, const BlobParts& parts,
                   std::span<uint32_t> values) const override {
    EXPECT_EQ(field.name, "image");
    EXPECT_EQ(parts.head.size(), std::min<uint64_t>(6, parts.size_bytes));
    if (parts.head.starts_with("image3")) return "is the third";
    values[0] = static_cast<uint32_t>(parts.head.back());
    return {};
  }
};

TEST(TarReader, AProbeSeesTheFirstBytesAndItsValuesAreKept) {
  runtime::MemoryStorage storage;
  storage.put("mem:/a.tar", pairs(5));
  IndexOptions options;
  options.probe = std::make_shared<FirstByte>();
  const auto index = build(storage, tar_source("mem:/a.tar"), options);
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ((*index)->media_values_per_blob(), 1u);
  EXPECT_EQ((*index)->media_values(0, 1)[3], static_cast<uint32_t>('4'));
  ASSERT_EQ((*index)->bad_rows().size(), 1u);
  EXPECT_EQ((*index)->bad_rows()[0].first, 3u);
  const auto ends = (*index)->media_ends(0);
  EXPECT_EQ(std::vector<uint64_t>(ends.begin(), ends.end()),
            (std::vector<uint64_t>{1, 2, 3, 3, 4}));
}

}  // namespace
}  // namespace overlord::columnar
