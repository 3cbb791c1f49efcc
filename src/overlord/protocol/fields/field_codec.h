// The fields of a struct as bytes and back, from its one list (base/fields.h): FieldWriter and
// FieldReader (and the tests' generator of random values) follow it. Where not all fields travel,
// or not as they are, `Fields` says how:
//
//   template <> struct Fields<model::Table> {
//     static void list(auto& codec, auto& value) {
//       auto& [name, size, holder] = value;
//       codec(name, size);
//       static_cast<void>(holder);  // the receiver's own
//     }
//   };
//
// The binding names every field: the compiler refuses a list that lacks one. The order of the list
// is the format: whoever changes a list raises the format of the codec that carries it.
//
// Canonical: one value has one encoding, and FieldReader refuses every other. Numbers are varints,
// rows of fixed layout are copied as they lie in memory. Counts are checked against the bytes that
// are left before anything is allocated.
#pragma once

#include <bit>
#include <concepts>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "overlord/base/bytes.h"
#include "overlord/base/enum_names.h"
#include "overlord/base/fields.h"
#include "overlord/base/hash.h"
#include "overlord/base/ids.h"
#include "overlord/base/status.h"
#include "overlord/model/encoder_part.h"
#include "overlord/model/exchange.h"
#include "overlord/model/hdp_layer.h"
#include "overlord/model/microbatch.h"
#include "overlord/model/plan.h"
#include "overlord/model/slot_rows.h"

namespace overlord::protocol {

static_assert(std::endian::native == std::endian::little, "rows are copied as they lie in memory");

template <typename T>
struct Fields {
  static void list(auto& codec, auto& value) {
    if constexpr (!std::is_empty_v<T>) {
      T::all_fields(value);
      value.visit_fields(codec);
    }
  }
};

// Structs whose arrays travel as raw rows: no padding, nothing that could be invalid.
template <typename T>
inline constexpr bool kIsRow = std::is_integral_v<T> && !std::is_same_v<T, bool>;
template <>
inline constexpr bool kIsRow<model::Segment> = true;
template <>
inline constexpr bool kIsRow<model::Placement> = true;
template <>
inline constexpr bool kIsRow<model::LineageRow> = true;
template <>
inline constexpr bool kIsRow<model::LossSpan> = true;
template <>
inline constexpr bool kIsRow<model::Dummy> = true;
template <>
inline constexpr bool kIsRow<model::PairBytes> = true;
template <>
inline constexpr bool kIsRow<model::PeerShare> = true;
template <>
inline constexpr bool kIsRow<model::HdpPart> = true;
template <>
inline constexpr bool kIsRow<model::HdpShare> = true;
template <>
inline constexpr bool kIsRow<model::LoaderSlot> = true;
template <>
inline constexpr bool kIsRow<model::BucketRows> = true;
template <>
inline constexpr bool kIsRow<model::PlannedRow> = true;

// bool, integers and enumerations.
template <typename T>
concept Scalar = std::is_integral_v<T> || std::is_enum_v<T>;

class FieldWriter {
 public:
  explicit FieldWriter(ByteWriter* bytes) : bytes_(bytes) {}

  template <typename... Ts>
  void operator()(const Ts&... fields) {
    (write(fields), ...);
  }
  ByteWriter& bytes() { return *bytes_; }

 private:
  template <Scalar T>
  void write(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      bytes_->u8(value ? 1 : 0);
    } else if constexpr (std::is_enum_v<T>) {
      bytes_->u8(static_cast<uint8_t>(value));
    } else if constexpr (std::is_signed_v<T>) {
      bytes_->zigzag(value);
    } else {
      bytes_->varint(value);
    }
  }
  void write(const std::string& value) { bytes_->text(value); }
  void write(const Digest& value) { bytes_->digest(value); }
  template <typename T>
  void write(const std::optional<T>& value) {
    bytes_->u8(value.has_value() ? 1 : 0);
    if (value) write(*value);
  }
  template <typename T>
  void write(const std::shared_ptr<const T>& value) {
    bytes_->u8(value != nullptr ? 1 : 0);
    if (value) write(*value);
  }
  template <typename T>
  void write(const std::vector<T>& values) {
    bytes_->varint(values.size());
    if constexpr (kIsRow<T>) {
      bytes_->raw(values.data(), values.size() * sizeof(T));
    } else {
      for (const T& value : values) write(value);
    }
  }
  template <typename T>
    requires(!Scalar<T>)
  void write(const T& value) {
    Fields<T>::list(*this, value);
  }

  ByteWriter* bytes_;
};

class FieldReader {
 public:
  explicit FieldReader(ByteReader* bytes) : bytes_(bytes) {}

  // Values are meaningful only when failed() says no after the last of them.
  template <typename... Ts>
  void operator()(Ts&... fields) {
    (read(fields), ...);
  }
  // A value that fits its bytes and makes no sense.
  void refuse() { refused_ = true; }
  bool failed() const { return refused_ || bytes_->failed(); }
  ByteReader& bytes() { return *bytes_; }
  Status status(std::string_view what, bool whole = true) const {
    if (refused_) return bad_data(std::string(what) + ": a value that makes no sense");
    return bytes_->status(what, whole);
  }

 private:
  template <Scalar T>
  void read(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      const uint8_t byte = bytes_->u8();
      if (byte > 1) refuse();
      value = byte != 0;
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(bytes_->u8());
      if (!is_known(value)) refuse();
    } else {
      using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
      Wide wide;
      if constexpr (std::is_signed_v<T>) {
        wide = bytes_->zigzag();
      } else {
        wide = bytes_->varint();
      }
      if (wide < std::numeric_limits<T>::min() || wide > std::numeric_limits<T>::max()) refuse();
      value = static_cast<T>(wide);
    }
  }
  void read(std::string& value) { value = bytes_->text(); }
  void read(Digest& value) { value = bytes_->digest(); }
  template <typename T>
  void read(std::optional<T>& value) {
    bool present = false;
    read(present);
    value.reset();
    if (present) read(value.emplace());
  }
  template <typename T>
  void read(std::shared_ptr<const T>& value) {
    bool present = false;
    read(present);
    value.reset();
    if (!present) return;
    auto made = std::make_shared<T>();
    read(*made);
    value = std::move(made);
  }
  template <typename T>
  void read(std::vector<T>& values) {
    values.clear();
    if constexpr (kIsRow<T>) {
      static_assert(std::has_unique_object_representations_v<T> && std::is_trivially_copyable_v<T>);
      const size_t count = bytes_->count(sizeof(T));
      const std::string_view rows = bytes_->raw(count * sizeof(T));
      values.resize(count);
      if (count > 0) std::memcpy(values.data(), rows.data(), rows.size());
    } else {
      // Grown one by one: what is allocated has been read, whatever the count says.
      const size_t count = bytes_->count(1);
      for (size_t i = 0; i < count && !failed(); ++i) read(values.emplace_back());
    }
  }
  template <typename T>
    requires(!Scalar<T>)
  void read(T& value) {
    Fields<T>::list(*this, value);
  }

  ByteReader* bytes_;
  bool refused_ = false;
};

template <typename Codec>
inline constexpr bool kIsWriter = std::is_same_v<std::remove_cvref_t<Codec>, FieldWriter>;
template <typename Codec>
inline constexpr bool kIsReader = std::is_same_v<std::remove_cvref_t<Codec>, FieldReader>;

}  // namespace overlord::protocol
