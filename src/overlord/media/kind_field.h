// FieldChain over the prepared chains of one kind of media. `Kind` says what is different:
//   Header, Prepared, Scratch; kBlob, what messages call a blob;
//   parse(text), rows_of(chain), limits(chain), plan_of(geometry, rows);
//   probe(blob, limits), values_of(header), header_of(values), header_text(values);
//   Part, where a part of a blob may be meant: {start, end} in milliseconds, which its chains take
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/media/field_chain.h"

namespace overlord::media {

template <typename KindOfField>
class KindField : public FieldChain {
 public:
  using Kind = KindOfField;

  KindField(typename Kind::Prepared chain, FieldRows rows)
      : chain_(std::move(chain)), rows_(std::move(rows)) {}

  std::string text() const override { return chain_text(chain_.chain()); }
  const FieldRows& rows() const override { return rows_; }

  Result<FieldPlan> planned(const HeaderValues& header, uint64_t size_bytes) const override {
    const auto known = Kind::header_of(header);
    OVERLORD_RETURN_IF_ERROR(
        check_limits(known, static_cast<size_t>(size_bytes), Kind::limits(chain_.chain())));
    if constexpr (kHasParts) {
      OVERLORD_TRY(const auto geometry, chain_.planned_size(known, part_of(header)));
      return Kind::plan_of(geometry, rows_);
    } else {
      OVERLORD_TRY(const auto geometry, chain_.planned_size(known));
      return Kind::plan_of(geometry, rows_);
    }
  }

  Status run(std::string_view blob, const HeaderValues& promised, uint64_t key,
             std::span<uint8_t> out) const override {
    OVERLORD_TRY(const auto header, header_as_promised(blob, promised));
    return fill(blob, header, promised, key, out);
  }

  Status judge(std::string_view blob, const HeaderValues& promised, uint64_t key) const override {
    OVERLORD_TRY(const auto header, header_as_promised(blob, promised));
    if constexpr (requires(typename Kind::Scratch& s) { chain_.judge(blob, header, key, s); }) {
      thread_local typename Kind::Scratch scratch;
      return chain_.judge(blob, header, key, scratch);
    } else {
      OVERLORD_TRY(const FieldPlan plan, planned(promised, blob.size()));
      std::vector<uint8_t> rows(plan.size_bytes);
      return fill(blob, header, promised, key, rows);
    }
  }

 protected:
  // Of a blob that is as promised.
  virtual Status fill(std::string_view blob, const typename Kind::Header& header,
                      const HeaderValues& promised, uint64_t key, std::span<uint8_t> out) const {
    thread_local typename Kind::Scratch scratch;
    if constexpr (kHasParts) {
      return chain_.run(blob, header, key, scratch, out, part_of(promised));
    } else {
      return chain_.run(blob, header, key, scratch, out);
    }
  }

 private:
  static constexpr bool kHasParts = requires { typename Kind::Part; };

  static auto part_of(const HeaderValues& values) {
    return typename Kind::Part{int64_t{values[kPartStart]}, int64_t{values[kPartEnd]}};
  }

  Result<typename Kind::Header> header_as_promised(std::string_view blob,
                                                   const HeaderValues& promised) const {
    OVERLORD_TRY(typename Kind::Header header, Kind::probe(blob, Kind::limits(chain_.chain())));
    OVERLORD_TRY(HeaderValues found, Kind::values_of(header));
    found[kPartStart] = promised[kPartStart];
    found[kPartEnd] = promised[kPartEnd];
    if (found == promised) return header;
    return bad_data("the index promises " + Kind::header_text(promised) + ", the " +
                    std::string(Kind::kBlob) + " has " + Kind::header_text(found));
  }

  typename Kind::Prepared chain_;
  FieldRows rows_;
};

template <typename Field>
Result<FieldChainPtr> prepare_field(std::string_view transform) {
  using Kind = typename Field::Kind;
  OVERLORD_TRY(auto chain, Kind::parse(transform));
  OVERLORD_TRY(FieldRows rows, Kind::rows_of(chain));
  OVERLORD_TRY(auto prepared, Kind::Prepared::prepare(std::move(chain)));
  return FieldChainPtr(std::make_shared<const Field>(std::move(prepared), std::move(rows)));
}

}  // namespace overlord::media
