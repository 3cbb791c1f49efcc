#include "overlord/roles/loader/media_serving.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/base/hash.h"
#include "overlord/base/rng.h"
#include "overlord/columnar/encoded_rows.h"
#include "overlord/model/widen.h"
#include "overlord/runtime/quote.h"
#include "overlord/runtime/trace.h"

namespace overlord::loader {
namespace {

using columnar::MediaPlace;
using columnar::MediaPlaces;

// Of one slot, where an encoder has owners of its own; more is made again.
constexpr uint64_t kMostKeptBytes = uint64_t{256} << 20;

// Chance in a transform: the same for a sample on every host, in every engine and after a resume.
uint64_t chain_key(const OpenSource& source, const SampleId& id, const PlannedBlob& planned) {
  const uint64_t stream = random_u64(source.seed, digest_of(source.spec.name).low, id.pass);
  return random_u64(stream, id.position, planned.field, planned.number);
}

// Of all blobs of a request: which document, field and place there each belongs to.
struct BlobOwner {
  size_t row = 0;  // of the request
  size_t field = 0;
  size_t number = 0;
};

std::vector<BlobOwner> owners_of(const MediaPlaces& places, size_t fields) {
  std::vector<BlobOwner> owners;
  for (size_t list = 0; list < places.ends.size(); ++list) {
    OVERLORD_CHECK(places.ends[list] >= owners.size(), "lists follow each other");
    const size_t begin = owners.size();
    while (owners.size() < places.ends[list]) {
      owners.push_back({list / fields, list % fields, owners.size() - begin});
    }
  }
  return owners;
}

// "'image'", or "'image', blob 3" where a row may have several.
std::string name_of(const OpenSource& source, const PlannedBlob& planned) {
  const OpenMediaField& field = source.media->fields()[planned.field];
  std::string name = runtime::quote(field.name);
  if (source.spec.media[field.number].many) name += ", blob " + std::to_string(planned.number);
  return name;
}

std::string_view text_of(const runtime::Bytes& bytes) { return {bytes.data, bytes.size}; }

}  // namespace

struct MediaServing::Document {
  MediaWant want;
  std::vector<std::vector<runtime::Bytes>> blobs;  // by field of Source::media, in order
  std::atomic<size_t> pending{1};  // blobs on their way; one extra until all are asked for
  ServedMedia served;
  bool ready = false;  // was kept: nothing to read
  // While users' functions are called: those on their way, with one extra; by served blob what
  // became of it, each written by its own callback.
  std::atomic<size_t> calls{0};
  std::vector<std::string> call_faults;
};

struct MediaServing::Work {
  std::vector<std::unique_ptr<Document>> documents;
  int64_t begin_ns = 0;
  std::atomic<size_t> ranges{1};  // being read; one extra until all are asked for
  bool reads_ranges = false;
  std::atomic<size_t> outstanding{0};
  std::atomic<bool> failed{false};
  Status fatal;  // written once, by whoever set `failed`
  Done done;
};

MediaServing::MediaServing(std::shared_ptr<const OpenSource> source,
                           std::shared_ptr<PayloadBudget> budget, LoaderSeams seams,
                           LoaderProbe* probe, bool packs)
    : source_(std::move(source)),
      seams_(std::move(seams)),
      probe_(probe),
      packs_(packs),
      blocks_(std::make_shared<MediaBlocks>(source_, std::move(budget), seams_, probe)) {}

void MediaServing::stop() {
  stopped_ = true;
  cancel_.cancel();
  blocks_->stop();
}

void MediaServing::shed() { blocks_->shed(); }

std::string MediaServing::row_text(const plan::RowRef& ref) const {
  return columnar::row_name(source_->spec, source_->manifest, ref.block, ref.row);
}

uint64_t MediaServing::row_number(const plan::RowRef& ref) const {
  return source_->manifest.blocks[ref.block].first_row + ref.row;
}

void MediaServing::give_up(Work& work, const Status& status) {
  if (!work.failed.exchange(true)) work.fatal = status;
}

void MediaServing::keep(const SampleId& id, const ServedMedia& served) {
  uint64_t size = sizeof(Kept);
  for (const ServedBlob& blob : served.blobs) size += blob.bytes.size;
  if (served.blobs.empty() && served.fault.empty()) return;
  const auto [entry, fresh] = kept_.try_emplace(id, Kept{next_kept_, size, served});
  if (!fresh) return;
  kept_order_.emplace(next_kept_++, id);
  kept_bytes_ += size;
  while (kept_bytes_ > kMostKeptBytes) take_kept(kept_order_.begin()->second);
}

std::optional<ServedMedia> MediaServing::take_kept(const SampleId& id) {
  const auto found = kept_.find(id);
  if (found == kept_.end()) return std::nullopt;
  ServedMedia served = std::move(found->second.served);
  OVERLORD_CHECK(kept_bytes_ >= found->second.size_bytes, "what is taken was kept");
  kept_bytes_ -= found->second.size_bytes;
  OVERLORD_CHECK(kept_order_.erase(found->second.number) == 1, "what is kept has its turn");
  kept_.erase(found);
  return served;
}

void MediaServing::serve(std::vector<MediaWant> wants, Done done) {
  auto work = std::make_shared<Work>();
  work->done = std::move(done);
  work->outstanding = wants.size() + 1;
  work->begin_ns = seams_.clock->now_ns();
  // A row that is wanted twice (in two passes) is asked for twice: a request names it once.
  std::map<std::pair<uint32_t, uint32_t>, std::vector<size_t>> blocks;  // (block, which time)
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> times;              // by (block, row)
  for (MediaWant& want : wants) {
    auto document = std::make_unique<Document>();
    document->want = want;
    if (std::optional<ServedMedia> kept = take_kept(want.id)) {
      document->served = std::move(*kept);
      document->ready = true;
    } else {
      const uint32_t time = times[{want.ref.block, want.ref.row}]++;
      blocks[{want.ref.block, time}].push_back(work->documents.size());
    }
    document->blobs.resize(source_->spec.media.size());
    work->documents.push_back(std::move(document));
  }
  for (auto& [which, documents] : blocks) {
    std::sort(documents.begin(), documents.end(), [&](size_t a, size_t b) {
      return work->documents[a]->want.ref.row < work->documents[b]->want.ref.row;
    });
    read_block(work, documents);
  }
  if (--work->ranges == 0 && work->reads_ranges) count_read(work->begin_ns);
  for (size_t i = 0; i < work->documents.size(); ++i) arrived(work, i);
  if (work->documents.empty()) work->done(std::vector<ServedMedia>());
}

void MediaServing::read_block(const std::shared_ptr<Work>& work,
                              const std::vector<size_t>& documents) {
  columnar::BlockRequest request;
  request.block = work->documents[documents.front()]->want.ref.block;
  request.scratch = seams_.scratch;
  request.pool = seams_.scratch ? seams_.scratch : seams_.pool;
  for (const size_t i : documents) request.rows.push_back(work->documents[i]->want.ref.row);
  Result<MediaPlaces> places = source_->reader->media_places(request);
  if (!places.ok()) return give_up(*work, places.status());
  const size_t fields = source_->spec.media.size();
  OVERLORD_CHECK(places->ends.size() == documents.size() * fields, "a list per row and field");
  // What is not delivered is not read.
  std::vector<size_t> decoded;  // documents that have such blobs
  const std::vector<BlobOwner> owners = owners_of(*places, fields);
  OVERLORD_CHECK(owners.size() == places->blobs.size(), "every blob has an owner");
  for (size_t i = 0; i < owners.size(); ++i) {
    MediaPlace& place = places->blobs[i];
    const size_t document = documents[owners[i].row];
    work->documents[document]->blobs[owners[i].field].emplace_back();
    if (!source_->spec.media[owners[i].field].use) place = MediaPlace();
    if (place.kind != MediaPlace::Kind::kDecoded) continue;
    if (decoded.empty() || decoded.back() != document) decoded.push_back(document);
  }
  read_ranges(work, documents, *places);
  if (!decoded.empty()) read_decoded(work, request.block, std::move(decoded));
}

void MediaServing::read_ranges(const std::shared_ptr<Work>& work,
                               const std::vector<size_t>& documents, const MediaPlaces& places) {
  const std::vector<BlobOwner> owners = owners_of(places, source_->spec.media.size());
  for (size_t i = 0; i < owners.size(); ++i) {
    const MediaPlace& place = places.blobs[i];
    if (place.kind != MediaPlace::Kind::kRange) continue;
    const size_t document = documents[owners[i].row];
    runtime::Bytes* blob = &work->documents[document]->blobs[owners[i].field][owners[i].number];
    if (place.size_bytes == 0) {
      *blob = runtime::Bytes::copy_of("");
      continue;
    }
    ++work->documents[document]->pending;
    ++work->ranges;
    work->reads_ranges = true;
    seams_.storage->read(
        {place.uri, place.offset, place.size_bytes, place.expected}, cancel_,
        [self = shared_from_this(), work, document, blob](Result<runtime::Bytes> bytes) {
          if (bytes.ok()) {
            self->probe_->read_bytes += bytes->size;
            *blob = std::move(*bytes);
          } else {
            self->give_up(*work, bytes.status());
          }
          if (--work->ranges == 0) self->count_read(work->begin_ns);
          self->arrived(work, document);
        });
  }
}

// All that was asked for together at `begin_ns` is there.
void MediaServing::count_read(int64_t begin_ns) {
  const int64_t end_ns = seams_.clock->now_ns();
  probe_->read_wait_ns += static_cast<uint64_t>(end_ns - begin_ns);
  if (!runtime::tracing()) return;
  runtime::TraceBook::of_process().note("read", source_->spec.name, begin_ns, end_ns);
}

// Blobs inside something compressed: they come together.
void MediaServing::read_decoded(const std::shared_ptr<Work>& work, uint32_t block,
                                std::vector<size_t> documents) {
  for (const size_t i : documents) ++work->documents[i]->pending;
  blocks_->load(block, [self = shared_from_this(), work,
                        documents = std::move(documents)](const Result<DecodedBlobsPtr>& blobs) {
    if (!blobs.ok() && blobs.status().code() != Code::kBadData) {
      self->give_up(*work, blobs.status());
    }
    for (const size_t i : documents) {
      Document& document = *work->documents[i];
      if (blobs.ok()) {
        self->take_decoded(**blobs, &document);
      } else {
        document.served.fault = blobs.status().message();
      }
      self->arrived(work, i);
    }
  });
}

void MediaServing::take_decoded(const DecodedBlobs& decoded, Document* document) const {
  const size_t fields = source_->spec.media.size();
  for (size_t field = 0; field < fields; ++field) {
    if (!source_->spec.media[field].use) continue;
    const auto blobs = decoded.of(document->want.ref.row, field, fields);
    std::vector<runtime::Bytes>& own = document->blobs[field];
    for (size_t i = 0; i < blobs.size() && i < own.size(); ++i) {
      if (blobs[i].data != nullptr) own[i] = blobs[i];
    }
  }
}

// Once all blobs of a document are there it is transformed; the last document ends the work.
void MediaServing::arrived(const std::shared_ptr<Work>& work, size_t document) {
  OVERLORD_CHECK(work->documents[document]->pending > 0, "a blob arrives once");
  if (--work->documents[document]->pending != 0) return;
  seams_.executor->post([self = shared_from_this(), work, document] {
    Document& own = *work->documents[document];
    const bool wanted = !own.ready && !work->failed && !self->cancel_.cancelled();
    if (wanted) self->transform(*work, own);
    own.blobs.clear();
    if (!wanted || !self->call_functions(work, document)) self->document_done(work);
  });
}

// The last one ends the work. From any thread.
void MediaServing::document_done(const std::shared_ptr<Work>& work) {
  OVERLORD_CHECK(work->outstanding > 1, "a document is done once");
  // One more than there are documents, so that the one that makes it 1 is the last.
  if (--work->outstanding != 1) return;
  seams_.on_loop([self = shared_from_this(), work] {
    if (self->stopped_) return;
    const Done done = std::move(work->done);
    if (work->failed) return done(work->fatal);
    std::vector<ServedMedia> all;
    for (auto& each : work->documents) {
      if (each->want.again && !each->ready) self->keep(each->want.id, each->served);
      all.push_back(std::move(each->served));
    }
    done(std::move(all));
  });
}

runtime::MediaFunction* MediaServing::function_of(const PlannedBlob& planned) const {
  return seams_.media_functions.empty() ? nullptr : seams_.media_functions[planned.field];
}

// Every blob whose field has a function goes to it. False: there is none, or nothing to call it
// with.
bool MediaServing::call_functions(const std::shared_ptr<Work>& work, size_t document) {
  Document& own = *work->documents[document];
  std::vector<ServedBlob>& blobs = own.served.blobs;
  if (work->failed || std::none_of(blobs.begin(), blobs.end(), [&](const ServedBlob& blob) {
        return function_of(blob.planned) != nullptr;
      })) {
    return false;
  }
  own.call_faults.resize(blobs.size());
  own.calls = 1;
  for (size_t i = 0; i < blobs.size(); ++i) {
    runtime::MediaFunction* function = function_of(blobs[i].planned);
    if (function == nullptr) continue;
    const size_t size = blobs[i].bytes.size;
    const runtime::Buffer made = seams_.pool->acquire(std::max<size_t>(size, 1));
    if (!made.data) {
      give_up(*work, seams_.pool->refusal(size));
      break;
    }
    ++own.calls;
    runtime::FunctionItem item{chain_key(*source_, own.want.id, blobs[i].planned),
                               source_->media->fields()[blobs[i].planned.field].layout,
                               blobs[i].planned.plan.shape, std::move(blobs[i].bytes), made};
    blobs[i].bytes = {made.data, made.data.get(), size};
    function->apply(std::move(item), cancel_,
                    [self = shared_from_this(), work, document, i](Result<int64_t> elapsed_ns) {
                      Document& called = *work->documents[document];
                      if (elapsed_ns.ok()) {
                        self->probe_->media_ns += static_cast<uint64_t>(*elapsed_ns);
                      } else if (elapsed_ns.status().code() == Code::kBadData) {
                        called.call_faults[i] = elapsed_ns.status().message();
                      } else {
                        self->give_up(*work, elapsed_ns.status());
                      }
                      self->called(work, document);
                    });
  }
  called(work, document);
  return true;
}

// The first blob that went wrong names the document's fault, whichever call came back first.
void MediaServing::called(const std::shared_ptr<Work>& work, size_t document) {
  Document& own = *work->documents[document];
  OVERLORD_CHECK(own.calls > 0, "a function answers once");
  if (--own.calls != 0) return;
  for (size_t i = 0; i < own.call_faults.size(); ++i) {
    if (own.call_faults[i].empty()) continue;
    own.served.fault = row_text(own.want.ref) + ", media " +
                       name_of(*source_, own.served.blobs[i].planned) + ": " + own.call_faults[i];
    own.served.blobs.clear();
    break;
  }
  document_done(work);
}

void MediaServing::transform(Work& work, Document& document) {
  const int64_t begin_ns = seams_.clock->now_ns();
  ServedMedia& served = document.served;
  if (!served.fault.empty()) return;
  const plan::RowRef& ref = document.want.ref;
  const OpenMedia& media = *source_->media;
  Result<PlannedMedia> planned = media.planned(row_number(ref));
  if (!planned.ok()) return give_up(work, planned.status());  // it was planned by the same index
  for (const PlannedBlob& blob : planned->blobs) {
    const OpenMediaField& field = media.fields()[blob.field];
    const std::vector<runtime::Bytes>& own = document.blobs[field.number];
    const runtime::Bytes stored = blob.number < own.size() ? own[blob.number] : runtime::Bytes();
    Result<ServedBlob> made = run_chain(document.want, blob, stored);
    ++probe_->media_blobs;
    probe_->media_in_bytes += stored.size;
    if (made.ok()) {
      probe_->media_out_bytes += made->bytes.size;
      served.blobs.push_back(std::move(*made));
    } else if (made.status().code() == Code::kBadData) {
      served.blobs.clear();
      served.fault =
          row_text(ref) + ", media " + name_of(*source_, blob) + ": " + made.status().message();
      break;
    } else {
      give_up(work, made.status().with_context("media " + field.name));
      break;
    }
  }
  const int64_t end_ns = seams_.clock->now_ns();
  probe_->media_ns += static_cast<uint64_t>(end_ns - begin_ns);
  if (runtime::tracing()) {
    runtime::TraceBook::of_process().note("media", source_->spec.name, begin_ns, end_ns);
  }
}

Result<ServedBlob> MediaServing::run_chain(const MediaWant& want, const PlannedBlob& planned,
                                           const runtime::Bytes& blob) const {
  const OpenMediaField& field = source_->media->fields()[planned.field];
  if (blob.data == nullptr) return bad_data("is not there, and the index has it");
  const bool goes_on = function_of(planned) != nullptr;
  if (packs_ && !goes_on) return pack(want, planned, blob);
  const media::HeaderValues promised = source_->media->promised(field, planned.blob);
  const size_t size = planned.plan.size_bytes;
  // What a function is given nobody else sees.
  runtime::BufferPool& pool = goes_on && seams_.scratch ? *seams_.scratch : *seams_.pool;
  const runtime::Buffer buffer = pool.acquire(std::max<size_t>(size, 1));
  if (!buffer.data) return pool.refusal(size);
  OVERLORD_RETURN_IF_ERROR(field.chain->run(text_of(blob), promised,
                                            chain_key(*source_, want.id, planned),
                                            {reinterpret_cast<uint8_t*>(buffer.data.get()), size}));
  return ServedBlob{planned, {buffer.data, buffer.data.get(), size}};
}

// What was read into memory that nobody else sees is put where others find it.
Result<ServedBlob> MediaServing::pack(const MediaWant& want, const PlannedBlob& planned,
                                      const runtime::Bytes& blob) const {
  const OpenMediaField& field = source_->media->fields()[planned.field];
  const model::PackedBlob packed{chain_key(*source_, want.id, planned),
                                 source_->media->promised(field, planned.blob)};
  if (!seams_.scratch) return ServedBlob{planned, blob, packed};
  const runtime::Buffer buffer = seams_.pool->acquire(std::max<size_t>(blob.size, 1));
  if (!buffer.data) return seams_.pool->refusal(blob.size);
  std::memcpy(buffer.data.get(), blob.data, blob.size);
  return ServedBlob{planned, {buffer.data, buffer.data.get(), blob.size}, packed};
}

namespace {

// Writes the tokens and the mask of one document: placeholders and its own.
class DocumentWriter {
 public:
  DocumentWriter(int32_t* tokens, uint8_t* mask) : tokens_(tokens), mask_(mask) {}

  uint32_t written() const { return written_; }
  void placeholder(uint32_t token, uint32_t count) {
    std::fill_n(tokens_ + written_, count, static_cast<int32_t>(token));
    std::fill_n(mask_ + written_, count, uint8_t{0});
    written_ += count;
  }
  void text(const model::TokenSpan& span, uint32_t begin, uint32_t count) {
    model::widen(span, begin, count, tokens_ + written_);
    if (span.mask != nullptr) {
      std::memcpy(mask_ + written_, span.mask + begin, count);
    } else {
      std::fill_n(mask_ + written_, count, uint8_t{1});
    }
    written_ += count;
  }

 private:
  int32_t* tokens_;
  uint8_t* mask_;
  uint32_t written_ = 0;
};

// A document on its way into a payload.
struct Attached {
  size_t place = 0;  // in the payload's lists
  const ServedMedia* served = nullptr;
  bool encoded_elsewhere = false;
  std::vector<DocumentPart> parts;
};

uint64_t tokens_of(const Attached& document) {
  uint64_t tokens = 0;
  for (const DocumentPart& part : document.parts) {
    tokens += part.blob ? document.served->blobs[*part.blob].planned.tokens : part.count;
  }
  return tokens;
}

void attach_blob(const OpenSource& source, const MediaNumbers& numbers, const Attached& document,
                 const ServedBlob& blob, DocumentWriter* writer, protocol::Payload* payload) {
  const PlannedBlob& planned = blob.planned;
  const uint32_t ordinal = payload->ordinals[document.place];
  const model::MediaUse& use = source.media->fields()[planned.field].use;
  if (use.before) writer->placeholder(*use.before, 1);
  const uint32_t lead = source.spec.bos ? 1 : 0;
  OVERLORD_CHECK(planned.field < numbers.fields.size(), "a delivered field");
  model::MediaPiece piece{ordinal,
                          numbers.fields[planned.field],
                          lead + writer->written(),
                          planned.pads,
                          planned.plan.shape,
                          {},
                          blob.packed};
  const bool encoded = planned.field == numbers.encoded;
  if (!encoded || (blob.packed && document.encoded_elsewhere)) {
    piece.data = {blob.bytes.data, blob.bytes.size};
    payload->holders.push_back(blob.bytes.holder);
    if (encoded) piece.packed->judged_only = true;
  } else {
    piece.packed.reset();
  }
  payload->media.push_back(piece);
  if (planned.pads > 0) writer->placeholder(*use.pad, planned.pads);
  if (use.after) writer->placeholder(*use.after, 1);
}

}  // namespace

Status attach_media(const OpenSource& source, const MediaNumbers& numbers,
                    const std::vector<size_t>& places, std::span<const MediaWant> wants,
                    std::span<const ServedMedia> served, runtime::BufferPool& pool,
                    protocol::Payload* payload, std::vector<std::string>* faults) {
  faults->assign(served.size(), {});
  OVERLORD_CHECK(places.size() >= served.size() && wants.size() == served.size(),
                 "a place for every document");
  std::vector<Attached> documents;
  uint64_t total = 0;
  for (size_t i = 0; i < served.size(); ++i) {
    if (!served[i].fault.empty()) continue;
    PlannedMedia planned;
    for (const ServedBlob& blob : served[i].blobs) planned.blobs.push_back(blob.planned);
    auto parts = lay_out(source.media->fields(), planned, payload->spans[places[i]]);
    if (!parts.ok()) {
      (*faults)[i] = parts.status().message();
      continue;
    }
    documents.push_back({places[i], &served[i], wants[i].again, std::move(*parts)});
    total += tokens_of(documents.back());
  }
  if (total == 0) return {};
  const runtime::Buffer buffer = pool.acquire(total * (sizeof(int32_t) + 1));
  if (!buffer.data) return pool.refusal(total * (sizeof(int32_t) + 1));
  payload->holders.push_back(buffer.data);
  auto* tokens = reinterpret_cast<int32_t*>(buffer.data.get());
  auto* mask = reinterpret_cast<uint8_t*>(tokens + total);
  for (const Attached& document : documents) {
    model::TokenSpan& span = payload->spans[document.place];
    DocumentWriter writer(tokens, mask);
    for (const DocumentPart& part : document.parts) {
      if (part.blob) {
        attach_blob(source, numbers, document, document.served->blobs[*part.blob], &writer,
                    payload);
      } else {
        writer.text(span, part.begin, part.count);
      }
    }
    OVERLORD_CHECK(writer.written() == tokens_of(document), "a document is as long as its parts");
    span = {tokens, mask, writer.written(), model::Element::kI32};
    tokens += writer.written();
    mask += writer.written();
  }
  return {};
}

Status attach_encoded(const OpenSource& source, const MediaNumbers& numbers, uint32_t bin,
                      const MediaWant& want, const ServedMedia& served, runtime::BufferPool& pool,
                      protocol::Payload* payload) {
  OVERLORD_CHECK(numbers.encoded.has_value(), "an encoder reads a field of the source");
  const uint64_t row = source.manifest.blocks[want.ref.block].first_row + want.ref.row;
  OVERLORD_TRY(const PlannedMedia planned, source.media->planned(row));
  for (size_t i = 0; i < planned.blobs.size(); ++i) {
    const PlannedBlob& blob = planned.blobs[i];
    const bool encoded = blob.field == numbers.encoded;
    runtime::Bytes bytes;
    std::optional<model::PackedBlob> packed;
    if (served.fault.empty()) {
      OVERLORD_CHECK(served.blobs.size() == planned.blobs.size(), "what was planned was served");
      bytes = served.blobs[i].bytes;
      packed = served.blobs[i].packed;
      if (!encoded && !(packed && want.again)) continue;
      if (packed) packed->judged_only = !encoded;
    } else if (encoded) {
      const size_t size = blob.plan.size_bytes;
      const runtime::Buffer zeros = pool.acquire(std::max<size_t>(size, 1));
      if (!zeros.data) return pool.refusal(size);
      std::memset(zeros.data.get(), 0, size);
      bytes = {zeros.data, zeros.data.get(), size};
    } else {
      continue;
    }
    payload->encoded.push_back(
        {bin, numbers.fields[blob.field], 0, 0, blob.plan.shape, {bytes.data, bytes.size}, packed});
    payload->holders.push_back(bytes.holder);
  }
  return {};
}

}  // namespace overlord::loader
