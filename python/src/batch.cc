// Binds model/microbatch.h: arrays are views into the batch's memory and keep it alive.
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "errors.h"
#include "hdp_tables.h"
#include "overlord/base/enum_names.h"
#include "overlord/batch/assemble.h"
#include "overlord/model/microbatch.h"
#include "owned_array.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

using model::Microbatch;

template <typename T>
nb::object matrix(const void* data, uint32_t rows, uint32_t columns, nb::handle owner) {
  const size_t shape[2] = {rows, columns};
  return nb::cast(
      nb::ndarray<nb::numpy, const T, nb::ndim<2>>(static_cast<const T*>(data), 2, shape, owner));
}

template <typename T>
nb::object vector_view(const std::vector<T>& values, nb::handle owner) {
  const size_t shape[1] = {values.size()};
  return nb::cast(nb::ndarray<nb::numpy, const T, nb::ndim<1>>(values.data(), 1, shape, owner));
}

nb::object token_matrix(nb::handle self, uint8_t field, model::FieldView model::Slab::* member) {
  const Microbatch& batch = *nb::inst_ptr<Microbatch>(self);
  if (!batch.slab || (batch.view.fields & field) == 0) return nb::none();
  const model::Slab& slab = *batch.slab;
  const void* data = (slab.*member).data;
  switch (batch.core->token_type) {
    case model::TokenType::kUint16:
      return matrix<uint16_t>(data, slab.rows, slab.columns, self);
    case model::TokenType::kInt32:
      return matrix<int32_t>(data, slab.rows, slab.columns, self);
    case model::TokenType::kInt64:
      return matrix<int64_t>(data, slab.rows, slab.columns, self);
  }
  return nb::none();
}

nb::object loss_weights(nb::handle self) {
  const Microbatch& batch = *nb::inst_ptr<Microbatch>(self);
  if (!batch.slab || (batch.view.fields & model::kFieldLossWeights) == 0) return nb::none();
  const model::Slab& slab = *batch.slab;
  if (batch.core->weight_type == model::WeightType::kUint8) {
    return matrix<uint8_t>(slab.loss_weights.data, slab.rows, slab.columns, self);
  }
  return matrix<float>(slab.loss_weights.data, slab.rows, slab.columns, self);
}

nb::object positions(nb::handle self) {
  const Microbatch& batch = *nb::inst_ptr<Microbatch>(self);
  if (!batch.slab || (batch.view.fields & model::kFieldPositions) == 0) return nb::none();
  return matrix<int32_t>(batch.slab->positions.data, batch.slab->rows, batch.slab->columns, self);
}

nb::object boundary(nb::handle self, std::vector<int32_t> model::Boundaries::* member) {
  const Microbatch& batch = *nb::inst_ptr<Microbatch>(self);
  if ((batch.view.fields & model::kFieldBoundaries) == 0) return nb::none();
  return vector_view(batch.core->boundaries.*member, self);
}

// Seven columns of int64: source, pass, position, first, count, bin, flags.
nb::object lineage(const Microbatch& batch) {
  const auto& rows = batch.core->lineage;
  OwnedTable table(7, rows.size());
  for (const model::LineageRow& row : rows) {
    table.add(row.id.source, row.id.pass, row.id.position, row.first, row.count, row.row,
              row.flags);
  }
  return std::move(table).array();
}

// Eight columns of int64: document, first token, tokens, first row, rows, t, h, w.
nb::object media_items(const model::MediaSlab& slab) {
  OwnedTable table(8, slab.items.size());
  for (const model::MediaItem& item : slab.items) {
    const model::MediaShape& shape = item.shape;
    table.add(item.document, item.first, item.tokens, item.row_begin, shape.rows, shape.t, shape.h,
              shape.w);
  }
  return std::move(table).array();
}

// [rows, *row_shape]; None where this rank gets no data.
nb::object media_rows(const model::MediaSlab& slab, nb::handle owner) {
  if (slab.data.data == nullptr) return nb::none();
  std::vector<size_t> shape = {static_cast<size_t>(slab.rows)};
  shape.insert(shape.end(), slab.layout.row_shape.begin(), slab.layout.row_shape.end());
  const auto rows_of = [&]<typename Value>(const Value* values) {
    return nb::cast(nb::ndarray<nb::numpy, const Value>(values, shape.size(), shape.data(), owner));
  };
  const void* const data = slab.data.data;
  if (slab.layout.element == model::Element::kF32) return rows_of(static_cast<const float*>(data));
  if (slab.layout.element == model::Element::kI16) {
    return rows_of(static_cast<const int16_t*>(data));
  }
  return rows_of(static_cast<const uint8_t*>(data));
}

nb::dict media(nb::handle self, model::MediaSlabs Microbatch::* member) {
  nb::dict out;
  const model::MediaSlabs& slabs = nb::inst_ptr<Microbatch>(self)->*member;
  if (!slabs) return out;
  for (const model::MediaSlab& slab : *slabs) {
    out[slab.layout.name.c_str()] = nb::make_tuple(media_rows(slab, self), media_items(slab));
  }
  return out;
}

// int64 [rows, columns]: where each token of this rank's slice stands in the whole microbatch. None
// where the rank has no tokens of its own.
nb::object token_index(const Microbatch& batch, const std::string& slicing) {
  if (!batch.slab) return nb::none();
  const size_t rows = batch.slab->rows;
  const size_t columns = batch.slab->columns;
  std::vector<int64_t> places;
  places.reserve(rows * columns);
  batch::AssembleSpec spec;
  spec.context = batch.core->context;
  spec.rows = batch.slab->rows;
  spec.slicing = unwrap(enum_of<model::Slicing>(slicing, "slicing"));
  spec.slices = batch.view.slices;
  std::vector<batch::TokenRange> ranges = {{0, static_cast<uint32_t>(rows * columns)}};
  if (spec.slices > 1) {
    ranges = batch::slice_ranges(spec, batch.core->boundaries, batch.view.slice);
  }
  for (const batch::TokenRange& range : ranges) {
    for (uint32_t at = range.begin; at < range.end; ++at) places.push_back(at);
  }
  return owned_array<int64_t>(std::move(places), {rows, columns});
}

uint64_t bytes_of(const Microbatch& batch) {
  const model::Boundaries& bounds = batch.core->boundaries;
  uint64_t bytes = 0;
  if (batch.view.fields & model::kFieldBoundaries) {
    bytes = (bounds.cu_seqlens.size() + bounds.cu_seqlens_padded.size()) * sizeof(int32_t);
  }
  for (const model::MediaSlabs& slabs : {batch.media, batch.encoded}) {
    if (!slabs) continue;
    for (const model::MediaSlab& slab : *slabs) bytes += slab.data.size_bytes;
  }
  if (!batch.slab) return bytes;
  const auto add = [&](uint8_t field, const model::FieldView& view) {
    if (batch.view.fields & field) bytes += view.size_bytes;
  };
  add(model::kFieldTokens, batch.slab->tokens);
  add(model::kFieldTargets, batch.slab->targets);
  add(model::kFieldLossWeights, batch.slab->loss_weights);
  add(model::kFieldPositions, batch.slab->positions);
  return bytes;
}

double fill_of(const Microbatch& batch) {
  const auto padded = static_cast<double>(batch.core->boundaries.cu_seqlens_padded.back());
  return static_cast<double>(batch.core->boundaries.tokens) / padded;
}

}  // namespace

void bind_batch(nb::module_& m) {
  nb::class_<Microbatch>(m, "Microbatch", "One microbatch as one rank sees it; read-only views.")
      .def_prop_ro("step", [](const Microbatch& b) { return b.core->step; })
      .def_prop_ro("microbatch", [](const Microbatch& b) { return b.core->index; })
      .def_prop_ro("microbatches", [](const Microbatch& b) { return b.core->count; })
      .def_prop_ro("last_in_step",
                   [](const Microbatch& b) { return b.core->index + 1 == b.core->count; })
      .def_prop_ro("tokens",
                   [](nb::handle self) {
                     return token_matrix(self, model::kFieldTokens, &model::Slab::tokens);
                   })
      .def_prop_ro("targets",
                   [](nb::handle self) {
                     return token_matrix(self, model::kFieldTargets, &model::Slab::targets);
                   })
      .def_prop_ro("loss_weights", &loss_weights)
      .def_prop_ro("positions", &positions)
      .def_prop_ro("cu_seqlens",
                   [](nb::handle self) { return boundary(self, &model::Boundaries::cu_seqlens); })
      .def_prop_ro(
          "cu_seqlens_padded",
          [](nb::handle self) { return boundary(self, &model::Boundaries::cu_seqlens_padded); })
      .def_prop_ro("max_seqlen", [](const Microbatch& b) { return b.core->boundaries.max_seqlen; })
      .def_prop_ro("num_docs", [](const Microbatch& b) { return b.core->boundaries.documents; })
      .def_prop_ro("num_tokens", [](const Microbatch& b) { return b.core->boundaries.tokens; })
      .def_prop_ro("target_tokens",
                   [](const Microbatch& b) { return b.core->boundaries.target_tokens; })
      .def_prop_ro("step_target_tokens",
                   [](const Microbatch& b) { return b.core->step_target_tokens; })
      .def_prop_ro("fill", &fill_of)
      .def_prop_ro("nbytes", &bytes_of)
      .def_prop_ro("encoder",
                   [](const Microbatch& b) {
                     return std::const_pointer_cast<model::EncoderPart>(b.encoder);
                   })
      .def_prop_ro("digest", [](const Microbatch& b) { return b.digest.hex(); })
      .def("hdp", &hdp_share, "Its group and this rank's share; None without slices.")
      .def(
          "encoded_media", [](nb::handle self) { return media(self, &Microbatch::encoded); },
          "As media(), of what this rank encodes; document: the place among its samples.")
      .def(
          "media", [](nb::handle self) { return media(self, &Microbatch::media); },
          "By field: (rows or None, int64 [items, 8]: document, first token, tokens, first row, "
          "rows, t, h, w).")
      .def("token_index", &token_index, nb::arg("slicing"),
           "int64 [rows, columns]: where each token of the slice stands in the whole microbatch.")
      .def("lineage", &lineage,
           "int64 [documents, 7]: source, pass, position, first, count, bin, flags.");
}

}  // namespace overlord::python
