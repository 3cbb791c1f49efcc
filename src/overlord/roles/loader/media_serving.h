// MediaServing: the loader's way from planned documents to their transformed media: read the blobs,
// decode and transform them on the CPU pool, have users' functions called, lay their placeholders
// among the documents' tokens. On one role's loop; never blocks it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/plan/select/source_order.h"
#include "overlord/protocol/messages.h"
#include "overlord/roles/loader/document_layout.h"
#include "overlord/roles/loader/media_blocks.h"
#include "overlord/roles/loader/open_media.h"
#include "overlord/roles/loader/role.h"

namespace overlord::loader {

struct MediaWant {
  SampleId id;
  plan::RowRef ref;
  // Another fetch of the step wants it too: that of its document, or of who encodes it.
  bool again = false;
};

struct ServedBlob {
  PlannedBlob planned;
  runtime::Bytes bytes;
  std::optional<model::PackedBlob> packed = std::nullopt;  // `bytes` are as they are stored
};

struct ServedMedia {
  std::vector<ServedBlob> blobs;
  std::string fault;  // not empty: the document is a hole, and why
};

class MediaServing : public std::enable_shared_from_this<MediaServing> {
 public:
  // `packs`: blobs are handed on as they are stored; who gets them decodes them.
  MediaServing(std::shared_ptr<const OpenSource> source, std::shared_ptr<PayloadBudget> budget,
               LoaderSeams seams, LoaderProbe* probe, bool packs);

  // One answer per want, in their order. Calls back on the loop, exactly once unless stopped.
  using Done = std::function<void(Result<std::vector<ServedMedia>>)>;
  void serve(std::vector<MediaWant> wants, Done done);
  // Drops decoded blocks that nobody has used since the last call.
  void shed();
  void stop();

 private:
  struct Document;
  struct Work;  // one call of serve()

  void read_block(const std::shared_ptr<Work>& work, const std::vector<size_t>& documents);
  void read_ranges(const std::shared_ptr<Work>& work, const std::vector<size_t>& documents,
                   const columnar::MediaPlaces& places);
  void read_decoded(const std::shared_ptr<Work>& work, uint32_t block,
                    std::vector<size_t> documents);
  void take_decoded(const DecodedBlobs& decoded, Document* document) const;
  void count_read(int64_t begin_ns);
  void arrived(const std::shared_ptr<Work>& work, size_t document);
  void transform(Work& work, Document& document);
  bool call_functions(const std::shared_ptr<Work>& work, size_t document);
  void called(const std::shared_ptr<Work>& work, size_t document);
  void document_done(const std::shared_ptr<Work>& work);
  runtime::MediaFunction* function_of(const PlannedBlob& planned) const;
  Result<ServedBlob> run_chain(const MediaWant& want, const PlannedBlob& planned,
                               const runtime::Bytes& blob) const;
  Result<ServedBlob> pack(const MediaWant& want, const PlannedBlob& planned,
                          const runtime::Bytes& blob) const;
  void give_up(Work& work, const Status& status);
  void keep(const SampleId& id, const ServedMedia& served);
  std::optional<ServedMedia> take_kept(const SampleId& id);
  std::string row_text(const plan::RowRef& ref) const;
  uint64_t row_number(const plan::RowRef& ref) const;

  std::shared_ptr<const OpenSource> source_;
  LoaderSeams seams_;
  LoaderProbe* probe_;
  bool packs_;
  std::shared_ptr<MediaBlocks> blocks_;
  runtime::CancelToken cancel_;
  bool stopped_ = false;
  // What was made for one fetch and is wanted by another; the oldest goes first.
  struct Kept {
    uint64_t number = 0;
    uint64_t size_bytes = 0;
    ServedMedia served;
  };
  std::map<SampleId, Kept> kept_;
  std::map<uint64_t, SampleId> kept_order_;
  uint64_t kept_bytes_ = 0;
  uint64_t next_kept_ = 0;
};

// Which of a source's delivered fields are which of the job's, and which of them an encoder with
// owners of its own takes.
struct MediaNumbers {
  std::vector<uint32_t> fields;
  std::optional<size_t> encoded;
};

// Puts the served media of documents that are no holes into the payload: `places[i]` is the place
// of served[i], which answers wants[i], in the payload's lists. Of an encoded field only the shape
// is handed over, and what is packed to be judged, unless its encoder is in the same bucket. Tokens
// and masks are written anew, with placeholders. A document whose tokens do not fit its media is
// left as it is, and `faults[i]` says why. kResource when the pool is exhausted.
Status attach_media(const OpenSource& source, const MediaNumbers& numbers,
                    const std::vector<size_t>& places, std::span<const MediaWant> wants,
                    std::span<const ServedMedia> served, runtime::BufferPool& pool,
                    protocol::Payload* payload, std::vector<std::string>* faults);

// Adds what an encoder of the bucket reads of a sample: `bin` of the encoder's layer. What did not
// decode is zeros of the planned shape, so that the exchange stays as it was planned. Beside what
// is packed goes all that is packed of its document, to be judged, unless that is here too.
Status attach_encoded(const OpenSource& source, const MediaNumbers& numbers, uint32_t bin,
                      const MediaWant& want, const ServedMedia& served, runtime::BufferPool& pool,
                      protocol::Payload* payload);

}  // namespace overlord::loader
