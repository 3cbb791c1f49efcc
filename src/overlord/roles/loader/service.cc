// Carries out a loader's effects: makes metadata windows, gathers planned samples, sends both.
#include <algorithm>
#include <deque>
#include <optional>
#include <set>

#include "overlord/base/check.h"
#include "overlord/columnar/encoded_rows.h"
#include "overlord/plan/select/source_order.h"
#include "overlord/roles/loader/block_loads.h"
#include "overlord/roles/loader/idle_slot.h"
#include "overlord/roles/loader/load_meter.h"
#include "overlord/roles/loader/media_serving.h"
#include "overlord/roles/loader/meta_window.h"
#include "overlord/roles/loader/order_cache.h"
#include "overlord/roles/loader/payload_bytes.h"
#include "overlord/roles/loader/posted_windows.h"
#include "overlord/roles/loader/role.h"
#include "overlord/runtime/trace.h"

namespace overlord::loader {

using plan::RowRef;

class Loader::Service : public std::enable_shared_from_this<Loader::Service> {
 public:
  Service(LoaderStart start, LoaderSeams seams)
      : job_(std::move(start.job)),
        source_(std::move(start.source)),
        sparse_reads_(start.sparse_reads),
        seams_(std::move(seams)),
        state_(start.first_window, std::move(start.peers), start.standby),
        orders_(source_),
        blocks_(std::make_shared<BlockLoads>(source_, start.budget, seams_, &probe_)),
        media_numbers_{std::move(start.media_fields), start.encoded_field} {
    probe_.standby = start.standby;
    if (source_->media) {
      media_ = std::make_shared<MediaServing>(source_, std::move(start.budget), seams_, &probe_,
                                              start.pack_media);
    }
  }

  void receive(const protocol::Envelope& envelope) {
    if (stopped_) return;
    perform(on_message(job_, state_, envelope));
    pump();
  }

  void promote(uint32_t generation) {
    if (stopped_) return;
    OVERLORD_CHECK(state_.standby() || generation > job_.versions.generation,
                   "a slot is active in a later generation than before");
    job_.versions.generation = generation;
    const auto withheld = state_.withheld();
    perform(on_promoted(job_, state_));
    shadow_blocks_.clear();
    probe_.standby = false;
    for (const auto& envelope : withheld) receive(*envelope);
    pump();
  }

  void stop() {
    stopped_ = true;
    blocks_->stop();
    if (media_) media_->stop();
  }

  void shed() {
    blocks_->shed();
    if (media_) media_->shed();
  }

  const LoaderProbe& probe() const { return probe_; }

 private:
  // A fetch or a window whose blocks are being read.
  struct Gathering {
    std::map<uint32_t, TokenBlockPtr> blocks;
    std::map<uint32_t, std::string> broken;  // blocks that could not be decoded, with the reason
    size_t outstanding = 0;
    std::optional<Status> fatal;
    std::function<void(Gathering&)> done;
  };

  void perform(const Reaction& reaction) {
    for (const Event& event : reaction.events) state_.apply(event);
    for (const Effect& effect : reaction.effects) {
      std::visit([&](const auto& e) { carry_out(e); }, effect);
    }
  }

  // Work that is answered from the cache comes back here before it returns: the outer call goes on.
  void pump() {
    if (pumping_) return;
    pumping_ = true;
    while (!stopped_) {
      const Reaction reaction = next_work(job_, state_);
      if (reaction.events.empty()) break;
      perform(reaction);
    }
    pumping_ = false;
    tell_load();
    probe_.in_work = state_.windows_in_work() + state_.fetches_in_work();
    probe_.reads = job_.slot < job_.slots_at(state_.grant(), state_.owners());
    probe_.file_state_bytes = orders_.memory_bytes();
    const bool reads = probe_.reads || state_.standby();
    if (idle_.gives_back(reads, probe_.in_work > 0, state_.grant(), job_.runway)) {
      blocks_->keep_only({});
      if (media_) media_->shed();
    }
  }

  void tell_load() {
    if (!job_.tells_load || state_.standby()) return;
    const size_t workers = std::max(state_.windows_in_work(), state_.fetches_in_work());
    const auto busy_ns = load_.note(workers, seams_.clock->now_ns());
    if (busy_ns) send(protocol::planner_address(), protocol::LoadTold{*busy_ns});
  }

  void carry_out(const Tell& tell) { send(protocol::planner_address(), tell.message); }

  void carry_out(const MakeWindow& effect) {
    if (const PostedWindow kept = posted_.find(effect.sequence)) {
      send_window(effect.sequence, *kept);  // the planner before this one had it
      return;
    }
    const auto pass = static_cast<uint32_t>(effect.sequence / job_.windows_per_pass);
    const uint64_t window = effect.sequence % job_.windows_per_pass;
    auto rows = orders_.rows_once(pass, window);
    const SampleId first{job_.source, pass, orders_.window(pass, window).first_position};
    if (source_->manifest.meta_origin == model::MetaOrigin::kIndex) {
      post(effect.sequence, window_from_index(*source_, first, *rows), *rows);
      return;
    }
    std::map<uint32_t, std::vector<uint32_t>> wanted;
    for (const RowRef& ref : *rows) wanted[ref.block];
    gather(std::move(wanted), [this, rows, first, sequence = effect.sequence](Gathering& got) {
      if (got.fatal) {
        fail(0, *got.fatal);
      } else {
        post(sequence, window_from_blocks(*source_, first, *rows, got.blocks, got.broken), *rows);
      }
      pump();
    });
  }

  void post(uint64_t sequence, model::MetaWindow window, const std::vector<RowRef>& rows) {
    for (const model::BadRow& bad : window.bad) {
      const RowRef ref = rows[bad.index];
      note_bad({window.first.source, window.first.pass, window.first.position + bad.index}, ref,
               bad.reason, false);
    }
    OVERLORD_CHECK(window.rows() == rows.size() && window.first.source == job_.source,
                   "a window has all its rows");
    probe_.rows_posted += window.rows();
    probe_.empty_rows += static_cast<uint64_t>(
        std::count(window.tokens.begin(), window.tokens.end(), model::kEmptyRow));
    const auto posted = send_window(sequence, std::move(window));
    if (source_->manifest.meta_origin != model::MetaOrigin::kIndex) posted_.keep(sequence, posted);
  }

  PostedWindow send_window(uint64_t sequence, model::MetaWindow window) {
    state_.apply(WindowPosted{sequence});
    window.generation = job_.versions.generation;
    auto posted = std::make_shared<const model::MetaWindow>(std::move(window));
    send(protocol::planner_address(), protocol::MetaPosted{sequence, posted});
    return posted;
  }

  // Planned samples come from one window after another: have the next one's blocks decoded before a
  // plan asks for them, where lengths come from the index (else metadata has done it already).
  void warm_after(uint32_t pass, uint64_t window) {
    const bool indexed = source_->manifest.meta_origin == model::MetaOrigin::kIndex;
    uint64_t sequence = uint64_t{pass} * job_.windows_per_pass + window + 1;
    // Of so many in a row one is its own, twice as many where a pass ends in between; none if it is
    // a slot that gets no windows any more.
    const uint64_t until = sequence + 2 * uint64_t{job_.slots_at(sequence, state_.owners())};
    while (sequence < until && !job_.owns(sequence, state_.owners())) ++sequence;
    if (!indexed || sparse_reads_ || sequence <= warmed_ || sequence == until) return;
    warmed_ = sequence;
    const auto next_pass = static_cast<uint32_t>(sequence / job_.windows_per_pass);
    const auto rows = orders_.rows(next_pass, sequence % job_.windows_per_pass);
    std::set<uint32_t> blocks;
    for (const RowRef& ref : *rows) blocks.insert(ref.block);
    for (const uint32_t block : blocks) blocks_->warm(block);
  }

  // Blocks of all plans that are known, oldest plan first; what no plan names any more makes room.
  // Single documents are kept nowhere.
  void carry_out(const Warm& effect) {
    std::set<uint32_t>& blocks = shadow_blocks_[effect.step];
    for (const model::PlannedRow& row : state_.plan(effect.step)->rows) {
      if (!sparse_reads_) blocks.insert(orders_.locate(row.pass, row.position).ref.block);
    }
    std::set<uint32_t> needed;
    for (auto it = shadow_blocks_.begin(); it != shadow_blocks_.end();) {
      if (state_.plan(it->first) == nullptr) {
        it = shadow_blocks_.erase(it);
      } else {
        needed.insert(it->second.begin(), it->second.end());
        ++it;
      }
    }
    blocks_->keep_only(needed);
    warm_next(effect.step, std::make_shared<std::deque<uint32_t>>(blocks.begin(), blocks.end()));
  }

  // One at a time, while the plan is of use: a shadow takes what others leave.
  void warm_next(StepIndex step, const std::shared_ptr<std::deque<uint32_t>>& blocks) {
    if (!blocks->empty() && state_.standby() && state_.plan(step) != nullptr) {
      const uint32_t block = blocks->front();
      blocks->pop_front();
      const auto next = [weak = weak_from_this(), step, blocks] {
        const auto self = weak.lock();
        if (!self) return;
        self->seams_.on_loop([weak, step, blocks] {
          const auto later = weak.lock();
          if (later && !later->stopped_) later->warm_next(step, blocks);
        });
      };
      if (blocks_->warm_in_spare_time(block, next)) return;
    }
    state_.apply(WarmingDone{});
    pump();
  }

  struct Wanted {  // one segment of a fetch
    uint32_t ordinal = 0;
    SampleId id;
    RowRef ref;
    uint32_t count = 0;  // its tokens
    uint64_t end = 0;    // of the segment, in tokens of its document
  };

  // Documents of a fetch that were found bad, with the reason. The planner hears of them together
  // with the answer: what it says then must find the answer waiting for it.
  struct Hole {
    RowRef ref;
    std::string reason;
  };
  using Holes = std::map<SampleId, Hole>;

  void carry_out(const Serve& effect) {
    auto wanted = std::make_shared<std::vector<Wanted>>(wanted_by(effect.key));
    std::map<uint32_t, std::vector<uint32_t>> blocks;
    for (const Wanted& want : *wanted) {
      std::vector<uint32_t>& rows = blocks[want.ref.block];
      if (sparse_reads_) rows.push_back(want.ref.row);
    }
    for (auto& [block, rows] : blocks) {
      std::sort(rows.begin(), rows.end());
      rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    }
    if (!wanted->empty()) {
      const SampleId& last = wanted->back().id;
      warm_after(last.pass, orders_.locate(last.pass, last.position).window);
    }
    gather(std::move(blocks), [this, wanted, key = effect.key](Gathering& got) {
      if (got.fatal) {
        abandon(key, *got.fatal);
      } else {
        answer(key, *wanted, got);
      }
    });
  }

  // A restarted constructor may wait for an older step: go on.
  void abandon(const FetchKey& key, const Status& status) {
    state_.apply(FetchAnswered{key});
    fail(key.step, status);
    pump();
  }

  // The segments of (step, bucket) that are this slot's.
  std::vector<Wanted> wanted_by(const FetchKey& key) {
    OVERLORD_CHECK(state_.plan(key) != nullptr, "a fetch starts when its plan is known");
    return located(state_.plan(key)->rows_of(key.bucket));
  }

  std::vector<Wanted> located(std::span<const model::PlannedRow> rows) {
    std::vector<Wanted> wanted;
    wanted.reserve(rows.size());
    for (const model::PlannedRow& row : rows) {
      const RowRef ref = orders_.locate(row.pass, row.position).ref;
      const SampleId id{job_.source, row.pass, row.position};
      wanted.push_back({row.ordinal, id, ref, row.count, row.end});
    }
    return wanted;
  }

  void gather(std::map<uint32_t, std::vector<uint32_t>> wanted,
              std::function<void(Gathering&)> done) {
    auto gathering = std::make_shared<Gathering>();
    gathering->done = std::move(done);
    gathering->outstanding = wanted.size() + 1;
    for (auto& [block, rows] : wanted) {
      blocks_->load(block, std::move(rows),
                    [weak = weak_from_this(), gathering, block = block](Result<TokenBlockPtr> got) {
                      if (const auto self = weak.lock()) self->arrived(*gathering, block, got);
                    });
    }
    if (--gathering->outstanding == 0) gathering->done(*gathering);
  }

  void arrived(Gathering& gathering, uint32_t block, const Result<TokenBlockPtr>& got) {
    if (got.ok()) {
      gathering.blocks[block] = *got;
    } else if (got.status().code() == Code::kBadData) {
      gathering.broken[block] = got.status().message();
    } else if (!gathering.fatal) {
      gathering.fatal = got.status();
    }
    OVERLORD_CHECK(gathering.outstanding > 0, "a block arrives once");
    if (--gathering.outstanding == 0) gathering.done(gathering);
  }

  void answer(const FetchKey& key, const std::vector<Wanted>& wanted, Gathering& got) {
    const int64_t begin_ns = runtime::tracing() ? seams_.clock->now_ns() : 0;
    auto payload = std::make_shared<protocol::Payload>();
    payload->step = key.step;
    payload->bucket = key.bucket;
    payload->source = job_.source;
    payload->slot = job_.slot;
    payload->ordinals.reserve(wanted.size());
    payload->spans.reserve(wanted.size());
    Holes holes;
    for (const Wanted& want : wanted) {
      payload->ordinals.push_back(want.ordinal);
      payload->spans.push_back(span_of(want, got, &holes));
      probe_.tokens += want.count;
    }
    for (auto& [block, tokens] : got.blocks) payload->holders.push_back(std::move(tokens));
    OVERLORD_CHECK(payload->spans.size() == payload->ordinals.size(), "a span for every segment");
    probe_.documents += wanted.size();
    if (begin_ns != 0) {
      runtime::TraceBook::of_process().note("answer", source_->spec.name, begin_ns,
                                            seams_.clock->now_ns(), static_cast<int64_t>(key.step));
    }
    if (media_) {
      add_media(key, wanted, std::move(payload), std::move(holes));
    } else {
      hand_over(key, std::move(payload), holes);
    }
  }

  // Media of the documents that are no holes; one whose media are bad becomes a hole too. Behind
  // them what ranks of the bucket encode: mostly of documents that others get.
  struct MediaFetch {
    FetchKey key;
    std::vector<size_t> places;  // of `documents` in the payload
    std::vector<Wanted> documents;
    std::vector<Wanted> encoded;     // `ordinal` is a bin of the encoder's layer
    std::vector<size_t> encoded_at;  // parallel: place in `wants`
    std::vector<MediaWant> wants;    // of `documents`, then of others that are encoded here
    std::shared_ptr<protocol::Payload> payload;
    Holes holes;
  };

  void add_media(const FetchKey& key, const std::vector<Wanted>& wanted,
                 std::shared_ptr<protocol::Payload> payload, Holes holes) {
    auto fetch = std::make_shared<MediaFetch>();
    fetch->key = key;
    fetch->payload = std::move(payload);
    fetch->holes = std::move(holes);
    std::map<SampleId, size_t> known;
    const std::map<SampleId, std::string>& undecodable = state_.undecodable(key);
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (fetch->payload->spans[i].data == nullptr) continue;
      if (const auto bad = undecodable.find(wanted[i].id); bad != undecodable.end()) {
        const std::string reason = row_text(wanted[i].ref) + ", " + bad->second;
        fetch->payload->spans[i] = hole(wanted[i], reason, &fetch->holes);
        continue;
      }
      known.emplace(wanted[i].id, fetch->wants.size());
      fetch->places.push_back(i);
      fetch->wants.push_back({wanted[i].id, wanted[i].ref, media_numbers_.encoded.has_value()});
      fetch->documents.push_back(wanted[i]);
    }
    fetch->encoded = encoded_by(key);
    for (const Wanted& want : fetch->encoded) {
      const auto [at, fresh] = known.emplace(want.id, fetch->wants.size());
      if (fresh) {
        fetch->wants.push_back({want.id, want.ref, true});
      } else {
        fetch->wants[at->second].again = false;  // document and encoder are in one bucket
      }
      fetch->encoded_at.push_back(at->second);
    }
    media_->serve(fetch->wants, [weak = weak_from_this(), fetch](auto served) {
      const auto self = weak.lock();
      if (!self) return;
      const Status status = served.ok() ? self->attach(*fetch, *served) : served.status();
      if (!status.ok()) return self->abandon(fetch->key, status);
      self->hand_over(fetch->key, std::move(fetch->payload), fetch->holes);
    });
  }

  Status attach(MediaFetch& fetch, const std::vector<ServedMedia>& served) {
    OVERLORD_CHECK(served.size() == fetch.wants.size() && fetch.documents.size() <= served.size(),
                   "an answer for every document");
    for (size_t i = 0; i < fetch.documents.size(); ++i) {
      if (served[i].fault.empty()) continue;
      fetch.payload->spans[fetch.places[i]] =
          hole(fetch.documents[i], served[i].fault, &fetch.holes);
    }
    std::vector<std::string> faults;
    const size_t count = fetch.documents.size();
    OVERLORD_RETURN_IF_ERROR(
        attach_media(*source_, media_numbers_, fetch.places, std::span(fetch.wants).first(count),
                     std::span(served).first(count), *seams_.pool, fetch.payload.get(), &faults));
    for (size_t i = 0; i < faults.size(); ++i) {
      if (faults[i].empty()) continue;
      fetch.payload->spans[fetch.places[i]] = hole(
          fetch.documents[i], row_text(fetch.documents[i].ref) + ": " + faults[i], &fetch.holes);
    }
    const std::map<SampleId, std::string>& undecodable = state_.undecodable(fetch.key);
    for (size_t i = 0; i < fetch.encoded.size(); ++i) {
      const size_t at = fetch.encoded_at[i];
      const auto bad = undecodable.find(fetch.encoded[i].id);
      const ServedMedia known =
          bad == undecodable.end() ? served[at] : ServedMedia{{}, bad->second};
      OVERLORD_RETURN_IF_ERROR(attach_encoded(*source_, media_numbers_, fetch.encoded[i].ordinal,
                                              fetch.wants[at], known, *seams_.pool,
                                              fetch.payload.get()));
    }
    return {};
  }

  // What ranks of the bucket encode of this slot's samples.
  std::vector<Wanted> encoded_by(const FetchKey& key) {
    const model::SlotRows* known = state_.plan(key);
    if (!media_numbers_.encoded || known == nullptr) return {};
    return located(known->encoded_of(key.bucket));
  }

  void hand_over(const FetchKey& key, std::shared_ptr<protocol::Payload> payload,
                 const Holes& holes) {
    state_.apply(FetchAnswered{key});
    const uint64_t bytes = bytes_of(*payload);
    probe_.sent_bytes += bytes;
    payload->holders.push_back(runtime::counted(probe_.in_flight, bytes));
    if (holes.empty()) {
      answer(key, std::move(payload));
      return pump();
    }
    std::map<SampleId, std::string> rows;
    for (const auto& [id, hole] : holes) {
      rows.emplace(id, hole.reason);
      note_bad(id, hole.ref, hole.reason, true);
      send(protocol::planner_address(), protocol::LateBad{key.step, id, hole.reason});
    }
    state_.apply(HolesFound{key, std::move(rows)});
    unlogged_[key] = std::move(payload);
    pump();
  }

  void carry_out(const Answer& effect) {
    const auto found = unlogged_.find(effect.key);
    OVERLORD_CHECK(found != unlogged_.end(), "an answer waits for its holes");
    answer(effect.key, std::move(found->second));
    unlogged_.erase(found);
  }

  // A plan is of one tree, and so are those that ask for it. One that all are done with is gone.
  void answer(const FetchKey& key, protocol::PayloadPtr payload) {
    if (state_.plan(key) == nullptr) return;
    const int64_t begin_ns = seams_.clock->now_ns();
    send(protocol::constructor_address(key.bucket, key.tree), std::move(payload));
    probe_.send_ns += static_cast<uint64_t>(seams_.clock->now_ns() - begin_ns);
  }

  model::TokenSpan span_of(const Wanted& want, const Gathering& got, Holes* holes) const {
    const auto broken = got.broken.find(want.ref.block);
    if (broken != got.broken.end()) return hole(want, broken->second, holes);
    const columnar::TokenBlock& block = *got.blocks.at(want.ref.block);
    OVERLORD_CHECK(want.ref.row < block.counts.size(), "a row of the block");
    const uint32_t count = block.counts[want.ref.row];
    if (count == model::kBadRow) return hole(want, reason_of(block, want.ref.row), holes);
    if (source_->manifest.meta_origin == model::MetaOrigin::kIndex) {
      const model::BlockEntry& entry = source_->manifest.blocks[want.ref.block];
      const uint32_t promised = source_->manifest.lengths[entry.first_row + want.ref.row];
      if (promised != count) {
        return hole(want,
                    row_text(want.ref) + ": the index promises " + std::to_string(promised) +
                        " tokens, the data has " + std::to_string(count),
                    holes);
      }
    }
    if (source_->spec.transform.declared()) {
      // Read again, and shorter than when it was planned: only code that is not deterministic does
      // so.
      const uint64_t has =
          media_length(want.ref, count) + (source_->spec.bos ? 1 : 0) + (source_->spec.eod ? 1 : 0);
      if (want.end > has) {
        return hole(want,
                    row_text(want.ref) + ": had at least " + std::to_string(want.end) +
                        " tokens when it was planned, has " + std::to_string(has) + " now",
                    holes);
      }
    }
    const uint64_t begin = block.begins[want.ref.row];
    const size_t width = model::element_bytes(block.element);
    const auto* mask = reinterpret_cast<const uint8_t*>(block.mask.data);
    return {block.values.data + begin * width, mask ? mask + begin : nullptr, count, block.element};
  }

  // Tokens of a row with those that stand for its media, without bos and eod.
  uint64_t media_length(const RowRef& ref, uint32_t count) const {
    if (!source_->media) return count;
    const uint64_t row = source_->manifest.blocks[ref.block].first_row + ref.row;
    const Result<PlannedMedia> planned = source_->media->planned(row);
    return planned.ok() ? planned->length(count) : count;
  }

  // Found bad after its metadata was posted: padding of the planned length, named (law 5).
  static model::TokenSpan hole(const Wanted& want, const std::string& reason, Holes* holes) {
    holes->emplace(want.id, Hole{want.ref, reason});
    return {};
  }

  static std::string reason_of(const columnar::TokenBlock& block, uint32_t row) {
    for (const model::BadRow& bad : block.bad) {
      if (bad.index == row) return bad.reason;
    }
    return "bad row";
  }

  std::string row_text(const RowRef& ref) const {
    return columnar::row_name(source_->spec, source_->manifest, ref.block, ref.row);
  }

  void note_bad(const SampleId& id, const RowRef& ref, const std::string& reason, bool late) {
    ++probe_.bad_rows;
    OVERLORD_CHECK(ref.block < source_->manifest.blocks.size(), "a block of the source");
    const uint64_t row = source_->manifest.blocks[ref.block].first_row + ref.row;
    seams_.quarantined({id, row, reason, late});
  }

  void fail(StepIndex step, const Status& status) {
    if (status.code() == Code::kCancelled) return;
    const Status named = status.with_context("source " + source_->spec.name);
    state_.apply(FailureTold{step, named});
    send(protocol::planner_address(), protocol::StreamFailed{step, named});
  }

  void send(const protocol::Address& to, protocol::Message message) {
    seams_.transport->send(
        {job_.versions, protocol::loader_address(job_.source, job_.slot), to, std::move(message)});
  }

  LoaderJob job_;
  std::shared_ptr<const OpenSource> source_;
  bool sparse_reads_;
  LoaderSeams seams_;
  LoaderProbe probe_;
  LoaderState state_;
  OrderCache orders_;
  PostedWindows posted_;
  std::shared_ptr<BlockLoads> blocks_;
  std::shared_ptr<MediaServing> media_;  // null: the source delivers none
  MediaNumbers media_numbers_;
  std::map<FetchKey, protocol::PayloadPtr> unlogged_;      // made; see LoaderState::unlogged
  std::map<StepIndex, std::set<uint32_t>> shadow_blocks_;  // of plans, while it stands by
  uint64_t warmed_ = 0;  // newest window whose blocks were asked for ahead
  bool pumping_ = false;
  LoadMeter load_;
  IdleSlot idle_;
  bool stopped_ = false;
};

Loader::Loader(LoaderStart start, LoaderSeams seams)
    : service_(std::make_shared<Service>(std::move(start), std::move(seams))) {}
Loader::~Loader() = default;
void Loader::receive(const protocol::Envelope& envelope) { service_->receive(envelope); }
void Loader::promote(uint32_t generation) { service_->promote(generation); }
void Loader::stop() { service_->stop(); }
void Loader::shed() { service_->shed(); }
const LoaderProbe& Loader::probe() const { return service_->probe(); }

}  // namespace overlord::loader
