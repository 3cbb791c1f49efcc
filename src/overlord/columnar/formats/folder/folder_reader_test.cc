#include "overlord/columnar/formats/folder/folder_reader.h"

#include <gtest/gtest.h>

#include "overlord/columnar/reading_test.h"

namespace overlord::columnar {
namespace {

model::Source folder_source(const std::string& folder) {
  model::Source source;
  source.name = "pets";
  source.format = model::Format::kFolder;
  source.files = {folder};
  source.text_column = std::string(kLabelColumn);
  source.media = {{"image", {"jpg", "png"}}, {"sound", {"wav"}}};
  return source;
}

void put_pets(runtime::MemoryStorage* storage) {
  for (const char* name : {"cat/1.jpg", "cat/2.PNG", "dog/1.jpg", "dog/deep/big dog/x.wav",
                           "dog/notes.txt", "cat/.hidden.jpg", ".git/x.jpg"}) {
    storage->put("mem:/pets/" + std::string(name), name);
  }
}

TEST(Folder, FilesAreRowsAndTheirFoldersLabels) {
  runtime::MemoryStorage storage;
  put_pets(&storage);
  IndexOptions options;
  options.block_rows = 1;
  const auto index = build(storage, folder_source("mem:/pets/"), options);
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ((*index)->manifest().shards.size(), 3u);
  EXPECT_EQ(read_all(storage, **index)->texts,
            (std::vector<std::string>{"cat", "cat", "dog", "big dog"}));
  const auto reader = (*index)->reader();
  std::vector<std::string> blobs;
  for (uint32_t block = 0; block < 4; ++block) {
    const auto lists = read_media(storage, (*index)->manifest(), **reader, {block, {}});
    ASSERT_TRUE(lists.ok()) << lists.status().message();
    ASSERT_EQ(lists->size(), 2u);
    EXPECT_EQ((*lists)[block == 3 ? 0 : 1].size(), 0u);
    blobs.push_back(texts_of((*lists)[block == 3 ? 1 : 0])[0]);
  }
  EXPECT_EQ(blobs, (std::vector<std::string>{"cat/1.jpg", "cat/2.PNG", "dog/1.jpg",
                                             "dog/deep/big dog/x.wav"}));
}

TEST(Folder, WhatComesAndGoesIsAChange) {
  runtime::MemoryStorage storage;
  put_pets(&storage);
  const auto index = build(storage, folder_source("mem:/pets/"));
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_TRUE((*index)->verify(storage).ok());
  storage.put("mem:/pets/dog/notes.txt", "of no source");
  EXPECT_TRUE((*index)->verify(storage).ok());
  storage.put("mem:/pets/cat/3.jpg", "new");
  EXPECT_TRUE(contains((*index)->verify(storage).message(), "mem:/pets/cat/"));
  storage.remove("mem:/pets/cat/3.jpg");
  storage.put("mem:/pets/bird/1.jpg", "bird");
  const Status more = (*index)->verify(storage);
  EXPECT_EQ(more.code(), Code::kSourceChanged);
  EXPECT_TRUE(contains(more.message(), "mem:/pets/bird/")) << more.message();
  storage.remove("mem:/pets/bird/1.jpg");
  storage.put("mem:/pets/dog/1.jpg", "dog/2.jpg");  // same name and size: found when it is read
  EXPECT_TRUE((*index)->verify(storage).ok());
  const auto reader = (*index)->reader();
  EXPECT_EQ(read_media(storage, (*index)->manifest(), **reader, {1, {}}).status().code(),
            Code::kSourceChanged);
}

TEST(Folder, EqualNamesInTwoFoldersAreTwoThings) {
  runtime::MemoryStorage storage;
  for (const char* label : {"a", "b"}) storage.put(std::string("mem:/") + label + "/0.jpg", label);
  const auto index = build(storage, folder_source("mem:/"));
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ((*index)->manifest().rows, 2u);
}

TEST(Folder, AFolderWithoutSuchFilesIsRefused) {
  runtime::MemoryStorage storage;
  storage.put("mem:/pets/notes.txt", "x");
  const Status status = build(storage, folder_source("mem:/pets/")).status();
  EXPECT_TRUE(contains(status.message(), "ends with .jpg, .png, .wav")) << status.message();
  EXPECT_FALSE(build(storage, folder_source("mem:/none/")).ok());
}

}  // namespace
}  // namespace overlord::columnar
