// Carries out a constructor's effects: keeps payloads, lays out microbatches, hands them to
// clients.
#include <algorithm>
#include <atomic>
#include <map>
#include <optional>

#include "overlord/base/check.h"
#include "overlord/batch/media_slabs.h"
#include "overlord/roles/constructor/batch_call.h"
#include "overlord/roles/constructor/role.h"
#include "overlord/roles/constructor/step_media.h"
#include "overlord/roles/constructor/unshared.h"
#include "overlord/runtime/trace.h"

namespace overlord::constructor {
namespace {

uint8_t payload_fields(const std::vector<model::ClientView>& views) {
  uint8_t fields = 0;
  for (const model::ClientView& view : views) fields |= view.fields & model::kPayloadFields;
  return fields;
}

// A user's function is given all fields, also those that no rank here sees: what it makes of the
// others may follow from them.
uint8_t laid_out(uint8_t seen, const std::optional<uint64_t>& batch_key) {
  return batch_key && seen != 0 ? uint8_t{model::kPayloadFields} : seen;
}

std::vector<bool> wanted_slices(const std::vector<model::ClientView>& views, uint32_t slices) {
  std::vector<bool> wanted(slices, false);
  for (const model::ClientView& view : views) {
    OVERLORD_CHECK(view.slice < slices, "a slice of the sequence");
    if (view.fields & model::kPayloadFields) wanted[view.slice] = true;
  }
  return wanted;
}

}  // namespace

uint64_t microbatch_bytes(const ConstructorStart& start) {
  const uint8_t seen = payload_fields(start.views);
  const uint64_t whole = batch::slab_bytes(start.assemble, laid_out(seen, start.batch_key));
  return start.assemble.slices == 1 ? whole : 2 * whole;  // the whole, and its slices
}

class Constructor::Service : public std::enable_shared_from_this<Constructor::Service> {
 public:
  Service(ConstructorStart start, ConstructorSeams seams)
      : job_(std::move(start.job)),
        assemble_(std::move(start.assemble)),
        views_(std::move(start.views)),
        ranks_(start.ranks),
        hash_batches_(start.hash_batches),
        media_(std::move(start.media)),
        chains_(std::move(start.chains)),
        source_names_(std::move(start.source_names)),
        fields_(payload_fields(views_)),
        batch_key_(start.batch_key),
        slices_(wanted_slices(views_, assemble_.slices)),
        seams_(std::move(seams)),
        probe_owner_(seams_.probe ? seams_.probe
                                  : std::make_shared<ConstructorProbe>(job_.sources)),
        probe_(*probe_owner_),
        state_(start.first_step, std::move(start.ranks), std::move(start.peers)),
        acknowledged_(start.first_step) {
    OVERLORD_CHECK(!batch_key_ || seams_.batch_transform != nullptr,
                   "a batch transform has somebody who runs it");
  }

  void receive(const protocol::Envelope& envelope) {
    perform(on_message(job_, state_, envelope));
    release();
    pump();
  }

  const ConstructorProbe& probe() const { return probe_; }
  bool waits_for(StepIndex step, const protocol::Address& loader) const {
    const StepEntry* entry = state_.step(step);
    return entry != nullptr && entry->missing.contains(loader);
  }

 private:
  // Everything one step needs until its clients have it.
  struct Held {
    model::PlanPtr plan;
    std::shared_ptr<const model::PlanIndex> index;
    std::vector<model::TokenSpan> spans;  // by ordinal
    Payloads payloads;                    // hold the memory behind the spans
    std::optional<StepMedia> media;
    std::vector<std::vector<model::MicrobatchPtr>> by_client;  // [client][microbatch]
    std::atomic<uint32_t> outstanding{0};
  };

  void perform(Reaction reaction) {
    for (const Event& event : reaction.events) state_.apply(event);
    for (Effect& effect : reaction.effects) std::visit([&](auto& e) { carry_out(e); }, effect);
  }

  void pump() {
    for (;;) {
      Reaction reaction = next_work(job_, state_);
      if (reaction.events.empty()) break;
      perform(std::move(reaction));
    }
    const uint64_t held = state_.steps_held();
    probe_.steps_held += held - held_steps_;  // others may count in the same probe
    held_steps_ = held;
  }

  // Tell the planner what all clients are done with, and let go of it.
  void release() {
    if (state_.acknowledged() <= acknowledged_) return;
    acknowledged_ = state_.acknowledged();
    held_.erase(held_.begin(), held_.lower_bound(acknowledged_));
    Send send{protocol::planner_address(), protocol::Acknowledged{acknowledged_}};
    carry_out(send);
  }

  void carry_out(Send& send) {
    const protocol::Address self = protocol::constructor_address(job_.bucket, job_.tree);
    seams_.transport->send({job_.versions, self, send.to, std::move(send.message)});
  }

  std::shared_ptr<Held>& hold(StepIndex step) {
    std::shared_ptr<Held>& held = held_[step];
    if (!held) {
      OVERLORD_CHECK(state_.step(step) != nullptr, "what is held is a planned step");
      const StepEntry& entry = *state_.step(step);
      held = std::make_shared<Held>();
      held->plan = entry.plan;
      held->index = entry.index;
      held->spans.resize(entry.index->buckets[job_.bucket].segments.size());
      held->media.emplace(held->plan, held->index, job_.bucket);
    }
    return held;
  }

  void carry_out(Keep& keep) {
    ++probe_.payloads;
    const protocol::Payload& payload = *keep.payload;
    Held& held = *hold(payload.step);
    OVERLORD_CHECK(payload.bucket == job_.bucket && payload.spans.size() == payload.ordinals.size(),
                   "a payload of this group");
    for (size_t i = 0; i < payload.ordinals.size(); ++i) {
      OVERLORD_CHECK(payload.ordinals[i] < held.spans.size(), "a segment of this group");
      held.spans[payload.ordinals[i]] = payload.spans[i];
    }
    const protocol::Address loader = protocol::loader_address(payload.source, payload.slot);
    held.payloads[loader] = std::move(keep.payload);
  }

  void carry_out(Assemble& effect) {
    const std::shared_ptr<Held> held = hold(effect.step);
    check_whole(*held);
    std::vector<PackedPiece> packed = held->media->packed(held->payloads);
    if (packed.empty()) return lay_out(held);
    unpack({seams_.executor, seams_.clock, seams_.pool, chains_, probe_owner_, source_names_},
           effect.step, packed,
           [self = shared_from_this(), held, packed](std::vector<Result<runtime::Bytes>> made) {
             self->seams_.on_loop([self, held, packed, made = std::move(made)] {
               self->unpacked(held, packed, made);
             });
           });
  }

  // A slot that should have been asked and was not would leave a hole that nobody knows of.
  void check_whole(const Held& held) const {
    size_t rows = 0;
    for (const auto& [loader, payload] : held.payloads) rows += payload->ordinals.size();
    OVERLORD_CHECK(!job_.wants_payload || rows == held.spans.size(), "every segment has come");
  }

  // Documents whose media did not decode are asked for again, as holes; then the step is laid out.
  void unpacked(const std::shared_ptr<Held>& held, const std::vector<PackedPiece>& packed,
                const std::vector<Result<runtime::Bytes>>& made) {
    if (const Status taken = held->media->take(packed, made); !taken.ok()) {
      return give_up(*held, taken);
    }
    const Refusals found = held->media->undecodable(held->payloads, media_);
    if (found.empty()) return lay_out(held);
    for (const auto& [loader, documents] : found) {
      held->media->forget(*held->payloads.extract(loader).mapped());
    }
    perform(on_undecodable(job_, state_, held->plan->step, found));
    pump();
  }

  void give_up(const Held& held, const Status& why) {
    state_.apply(Failed{held.plan->step, why});
    pump();
  }

  void lay_out(const std::shared_ptr<Held>& held) {
    if (const Status sorted = held->media->sort(held->payloads, media_, *seams_.pool);
        !sorted.ok()) {
      return give_up(*held, sorted);
    }
    const uint32_t microbatches = held->plan->layers.front().microbatches_of(job_.bucket);
    OVERLORD_CHECK(microbatches > 0 && held->outstanding == 0, "a step is laid out once");
    held->by_client.assign(views_.size(), std::vector<model::MicrobatchPtr>(microbatches));
    held->outstanding = microbatches;
    for (uint32_t m = 0; m < microbatches; ++m) {
      seams_.executor->post([self = shared_from_this(), held, m] { self->assemble_one(held, m); });
    }
  }

  // On the CPU pool: reads only what is immutable while the step is in flight.
  void assemble_one(const std::shared_ptr<Held>& held, uint32_t microbatch) {
    const int64_t begin_ns = seams_.clock->now_ns();
    const auto draft = std::make_shared<Draft>();
    lay_out_one(*held, microbatch, draft.get());
    if (batch_key_ && fields_ != 0 && draft->core->boundaries.documents > 0) {
      count_time(*held, "assemble", begin_ns);
      ask(held, draft);
    } else {
      cut_and_share(held, draft.get(), begin_ns);
    }
  }

  // The answer comes on a thread of whoever runs the function.
  void ask(const std::shared_ptr<Held>& held, const std::shared_ptr<Draft>& draft) {
    const int64_t begin_ns = seams_.clock->now_ns();
    seams_.batch_transform->apply(
        question_of(draft, job_.bucket, *batch_key_),
        [self = shared_from_this(), held, draft, begin_ns](Result<runtime::BatchAnswer> answer) {
          self->note(*held, "batch_transform", begin_ns, self->seams_.clock->now_ns());
          if (!answer.ok()) return self->transform_failed(held, answer.status());
          self->seams_.executor->post([self, held, draft, answer = std::move(*answer)] {
            const int64_t again_ns = self->seams_.clock->now_ns();
            const Status taken = take_answer(answer, *self->seams_.pool, draft.get());
            if (!taken.ok()) return self->transform_failed(held, taken);
            self->cut_and_share(held, draft.get(), again_ns);
          });
        });
  }

  void transform_failed(const std::shared_ptr<Held>& held, const Status& status) {
    if (status.code() == Code::kCancelled) return;  // the engine ends
    seams_.on_loop([self = shared_from_this(), held, status] {
      self->perform(on_transform_failed(self->state_, held->plan->step, status));
      self->pump();
    });
  }

  void cut_and_share(const std::shared_ptr<Held>& held, Draft* draft, int64_t begin_ns) {
    std::vector<std::shared_ptr<const model::Slab>> slabs(draft->spec.slices);
    if (fields_ != 0) {
      slabs = batch::cut_slabs(draft->spec, *draft->core, std::move(draft->whole), fields_, slices_,
                               *seams_.pool);
    }
    share(*held, draft->microbatch, draft->core, slabs, draft->media);
    count_time(*held, "assemble", begin_ns);
    probe_.bytes_assembled += batch::slab_bytes(draft->spec, fields_);
    OVERLORD_CHECK(held->outstanding > 0, "a microbatch is laid out once");
    if (--held->outstanding != 0) return;
    seams_.on_loop([self = shared_from_this(), held] { self->assembled(*held); });
  }

  void count_time(const Held& held, const char* what, int64_t begin_ns) {
    const int64_t end_ns = seams_.clock->now_ns();
    probe_.assemble_ns += static_cast<uint64_t>(end_ns - begin_ns);
    note(held, what, begin_ns, end_ns);
  }

  void note(const Held& held, const char* what, int64_t begin_ns, int64_t end_ns) const {
    if (!runtime::tracing()) return;
    runtime::TraceBook::of_process().note(what, "group " + std::to_string(job_.bucket), begin_ns,
                                          end_ns, static_cast<int64_t>(held.plan->step));
  }

  void lay_out_one(const Held& held, uint32_t microbatch, Draft* draft) const {
    const std::vector<batch::Piece> pieces = pieces_of(held, microbatch);
    const batch::AssembleSpec spec = spec_of(held, microbatch);
    auto core = std::make_shared<model::MicrobatchCore>();
    core->step = held.plan->step;
    core->index = microbatch;
    core->count = held.plan->layers.front().microbatches_of(job_.bucket);
    core->step_target_tokens = held.plan->target_tokens;
    core->token_type = spec.token_type;
    core->weight_type = spec.weight_type;
    core->context = spec.context;
    if ((core->hdp = held.plan->layers.front().hdp) != nullptr) {
      core->hdp_bin = held.index->buckets[job_.bucket].bins[microbatch];
    }
    batch::fill_core(spec, pieces, core.get());
    mark_holes(pieces, core.get());
    if (fields_ != 0) {
      draft->whole = batch::fill_whole(spec, pieces, laid_out(fields_, batch_key_), *seams_.pool);
    }
    draft->microbatch = microbatch;
    draft->media = media_of(held, microbatch, spec, pieces);
    draft->core = std::move(core);
    draft->spec = spec;
  }

  // Microbatches of samples are one row, as long as the plan says.
  batch::AssembleSpec spec_of(const Held& held, uint32_t microbatch) const {
    batch::AssembleSpec spec = assemble_;
    const model::BucketIndex& bucket = held.index->buckets[job_.bucket];
    if (bucket.capacities.empty()) return spec;
    spec.rows = 1;
    spec.context = bucket.capacities[microbatch];
    return spec;
  }

  std::vector<batch::Piece> pieces_of(const Held& held, uint32_t microbatch) const {
    const model::Layer& layer = held.plan->layers.front();
    const model::BucketIndex& bucket = held.index->buckets[job_.bucket];
    const uint32_t first_row = microbatch * layer.microbatch_size;
    OVERLORD_CHECK(size_t{first_row} + layer.microbatch_size <= bucket.row_ends.size(),
                   "rows of a microbatch of this group");
    std::vector<batch::Piece> pieces;
    uint32_t ordinal = first_row == 0 ? 0 : bucket.row_ends[first_row - 1];
    pieces.reserve(bucket.row_ends[first_row + layer.microbatch_size - 1] - ordinal);
    for (uint32_t row = 0; row < layer.microbatch_size; ++row) {
      for (; ordinal < bucket.row_ends[first_row + row]; ++ordinal) {
        const uint32_t segment = bucket.segments[ordinal];
        const uint32_t position = layer.hdp ? layer.hdp->parts[segment].offset : 0;
        pieces.push_back({layer.segments[segment], row, held.spans[ordinal], position});
      }
    }
    return pieces;
  }

  // The media of its documents, as ranks see them who get tokens; null where there are none.
  model::MediaSlabs media_of(const Held& held, uint32_t microbatch, const batch::AssembleSpec& spec,
                             const std::vector<batch::Piece>& pieces) const {
    const auto& media = held.media->documents();
    if (media.empty()) return nullptr;
    const std::vector<uint32_t> starts = batch::document_starts(spec, pieces);
    const uint32_t first = first_ordinal(held, microbatch);
    std::vector<batch::PlacedMedia> placed;
    for (uint32_t i = 0; i < pieces.size(); ++i) {
      const auto found = media.find(first + i);
      if (found == media.end()) continue;
      OVERLORD_CHECK(pieces[i].segment.first == 0, "a document with media is never cut");
      for (const model::MediaPiece& piece : found->second) placed.push_back({&piece, i, starts[i]});
    }
    if (placed.empty()) return nullptr;
    const bool seen = (laid_out(fields_, batch_key_) & model::kFieldTokens) != 0;
    return std::make_shared<const std::vector<model::MediaSlab>>(
        batch::fill_media(media_, placed, seen, *seams_.pool));
  }

  uint32_t first_ordinal(const Held& held, uint32_t microbatch) const {
    const uint32_t row = microbatch * held.plan->layers.front().microbatch_size;
    return row == 0 ? 0 : held.index->buckets[job_.bucket].row_ends[row - 1];
  }

  void mark_holes(const std::vector<batch::Piece>& pieces, model::MicrobatchCore* core) const {
    if (fields_ == 0) return;
    OVERLORD_CHECK(core->lineage.size() == pieces.size(), "a line for every piece");
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (pieces[i].span.data == nullptr) core->lineage[i].flags |= model::LineageRow::kHole;
    }
  }

  // One record per client; clients with the same view share bytes, and the digest of them.
  void share(Held& held, uint32_t microbatch, std::shared_ptr<const model::MicrobatchCore> core,
             const std::vector<std::shared_ptr<const model::Slab>>& slabs,
             const model::MediaSlabs& media) {
    model::MediaSlabs shapes;  // for ranks that get no tokens
    if (media) {
      shapes = std::make_shared<const std::vector<model::MediaSlab>>(batch::without_data(*media));
    }
    const std::vector<model::EncoderPartPtr> parts =
        model::encoder_parts(*held.plan, *held.index, job_.bucket, microbatch, ranks_);
    OVERLORD_CHECK(parts.size() == views_.size(), "a part for every client");
    std::map<std::pair<uint32_t, uint8_t>, model::MicrobatchPtr> made;
    std::map<uint32_t, model::MediaSlabs> encoded;  // by encoder
    for (size_t client = 0; client < views_.size(); ++client) {
      const model::ClientView& view = views_[client];
      model::MicrobatchPtr& batch = made[{view.slice, view.fields}];
      if (!batch) {
        auto fresh = std::make_shared<model::Microbatch>();
        fresh->core = core;
        fresh->view = view;
        if (view.fields & model::kPayloadFields) {
          fresh->slab = slabs[view.slice];
          fresh->media = (view.fields & model::kFieldTokens) != 0 ? media : shapes;
        }
        if (hash_batches_) {
          fresh->digest = batch::batch_digest(*core, fresh->slab.get(), view.fields);
          if (fresh->media) {
            fresh->digest = chain(fresh->digest, model::media_digest(*fresh->media));
          }
        }
        batch = std::move(fresh);
      }
      held.by_client[client][microbatch] =
          with_encoder(batch, parts[client], encoded_of(held, parts[client], &encoded));
    }
  }

  // Every rank has its own part in an exchange, so such records are not shared.
  model::MicrobatchPtr with_encoder(const model::MicrobatchPtr& batch,
                                    const model::EncoderPartPtr& part,
                                    const model::MediaSlabs& encoded) const {
    OVERLORD_CHECK(batch != nullptr, "every client has its microbatch");
    if (!part) return batch;
    auto own = std::make_shared<model::Microbatch>(*batch);
    own->encoder = part;
    own->encoded = encoded;
    if (hash_batches_) {
      own->digest = chain(own->digest, model::encoder_part_digest(*part));
      if (encoded) own->digest = chain(own->digest, model::media_digest(*encoded));
    }
    return own;
  }

  // What a rank encodes, in the order of its samples. Ranks that run one encoder share it.
  model::MediaSlabs encoded_of(const Held& held, const model::EncoderPartPtr& part,
                               std::map<uint32_t, model::MediaSlabs>* made) const {
    const auto& encoded = held.media->encoded();
    if (!part || !part->runs || encoded.empty()) return nullptr;
    const auto [found, fresh] = made->try_emplace(part->encoder);
    if (!fresh) return found->second;
    std::vector<batch::PlacedMedia> placed;
    for (uint32_t i = 0; i < part->samples.size(); ++i) {
      const auto pieces = encoded.find(part->samples[i].id);
      if (pieces == encoded.end()) continue;
      for (const model::MediaPiece& piece : pieces->second) placed.push_back({&piece, i, 0});
    }
    if (placed.empty()) return nullptr;
    found->second = std::make_shared<const std::vector<model::MediaSlab>>(
        batch::fill_media(media_, placed, true, *seams_.pool));
    return found->second;
  }

  void assembled(Held& held) {
    held.spans.clear();
    held.media->clear();
    held.payloads.clear();
    ++probe_.steps_ready;
    if (state_.step(held.plan->step) == nullptr) return;  // acknowledged meanwhile
    state_.apply(StepAssembled{held.plan->step});
    pump();
  }

  void carry_out(Deliver& effect) {
    const Held& held = *held_.at(effect.step);
    OVERLORD_CHECK(held.outstanding == 0 && !held.by_client.empty(),
                   "a step is delivered when it is laid out");
    const auto& ranks = state_.ranks();
    const size_t client =
        static_cast<size_t>(std::find(ranks.begin(), ranks.end(), effect.rank) - ranks.begin());
    OVERLORD_CHECK(client < held.by_client.size(), "a step goes to a rank of the group");
    Send send{protocol::client_address(effect.rank),
              protocol::StepReady{effect.step, held.plan, held.by_client[client]}};
    carry_out(send);
  }

  ConstructorJob job_;
  batch::AssembleSpec assemble_;
  std::vector<model::ClientView> views_;
  std::vector<Rank> ranks_;  // parallel to views_
  bool hash_batches_;
  std::vector<model::MediaLayout> media_;
  std::shared_ptr<const MediaChains> chains_;
  std::shared_ptr<const std::vector<std::string>> source_names_;
  uint8_t fields_;
  std::optional<uint64_t> batch_key_;
  std::vector<bool> slices_;
  ConstructorSeams seams_;
  const std::shared_ptr<ConstructorProbe> probe_owner_;
  ConstructorProbe& probe_;
  ConstructorState state_;
  uint64_t held_steps_ = 0;
  std::map<StepIndex, std::shared_ptr<Held>> held_;
  StepIndex acknowledged_;
};

Constructor::Constructor(ConstructorStart start, ConstructorSeams seams) {
  if (start.shared) {
    service_ = std::make_shared<Service>(std::move(start), std::move(seams));
  } else {
    unshared_ = std::make_unique<Unshared>(std::move(start), std::move(seams));
  }
}
Constructor::~Constructor() = default;
void Constructor::receive(const protocol::Envelope& envelope) {
  service_ ? service_->receive(envelope) : unshared_->receive(envelope);
}
const ConstructorProbe& Constructor::probe() const {
  return service_ ? service_->probe() : unshared_->probe();
}
bool Constructor::waits_for(StepIndex step, const protocol::Address& loader) const {
  return service_ && service_->waits_for(step, loader);
}

}  // namespace overlord::constructor
