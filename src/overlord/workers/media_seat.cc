#include "overlord/workers/media_seat.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/base/hash.h"
#include "overlord/workers/worker_rules.h"

namespace overlord::workers {
namespace {

using runtime::FunctionItem;
using runtime::TextRows;

constexpr uint64_t kLeastSlabBytes = uint64_t{1} << 20;

// NumPy's names; media have no other types (model::MediaLayout).
const char* type_name(model::Element element) {
  switch (element) {
    case model::Element::kI16:
      return "int16";
    case model::Element::kF32:
      return "float32";
    default:
      return "uint8";
  }
}

std::string shape_text(const FunctionItem& item) {
  std::string text = "[" + std::to_string(item.shape.rows);
  for (const uint32_t side : item.layout.row_shape) text += "," + std::to_string(side);
  return text + "]";
}

}  // namespace

std::string ItemTickets::add(ItemPtr item) {
  const std::lock_guard lock(mutex_);
  std::string ticket = std::to_string(++given_);
  items_.emplace(ticket, std::move(item));
  return ticket;
}

ItemTickets::ItemPtr ItemTickets::find(std::string_view ticket) const {
  const std::lock_guard lock(mutex_);
  const auto found = items_.find(ticket);
  return found == items_.end() ? nullptr : found->second;
}

void ItemTickets::remove(std::string_view ticket) {
  const std::lock_guard lock(mutex_);
  const auto found = items_.find(ticket);
  if (found != items_.end()) items_.erase(found);
}

Result<TransformAnswer> MediaSeat::run(const TextRows& tickets) {
  OVERLORD_TRY(const std::vector<Laid> laid, lay(tickets));
  Result<TransformAnswer> answer = caller_->run(told(laid));
  if (answer.ok()) answer = take(laid, *answer);
  // Whoever failed may still write into it.
  if (!answer.ok()) slab_.reset();
  return answer;
}

Result<std::vector<MediaSeat::Laid>> MediaSeat::lay(const TextRows& tickets) {
  std::vector<Laid> laid;
  uint64_t end = 0;
  for (size_t i = 0; i < tickets.rows(); ++i) {
    Laid each{tickets_->find(tickets.row(i))};
    OVERLORD_CHECK(each.item != nullptr, "a ticket lives as long as its call");
    each.given_at = end;
    each.made_at = end + aligned(each.item->given.size);
    end = each.made_at + aligned(each.item->given.size);
    laid.push_back(std::move(each));
  }
  if (slab_ == nullptr || slab_->size_bytes() < end) {
    slab_.reset();
    // Half as much again: items of about the same size do not make it grow with every call.
    OVERLORD_TRY(slab_, ItemSlab::make(std::max(aligned(end + end / 2), kLeastSlabBytes)));
  }
  for (const Laid& each : laid) {
    std::memcpy(slab_->data() + each.given_at, each.item->given.data, each.item->given.size);
  }
  return laid;
}

TextRows MediaSeat::told(const std::vector<Laid>& laid) const {
  TextRows rows;
  for (const Laid& each : laid) {
    const FunctionItem& item = *each.item;
    rows.bytes +=
        R"({"slab":")" + slab_->path() + R"(","inode":)" + std::to_string(slab_->inode()) +
        R"(,"size":)" + std::to_string(slab_->size_bytes()) + R"(,"given":)" +
        std::to_string(each.given_at) + R"(,"made":)" + std::to_string(each.made_at) +
        R"(,"type":")" + type_name(item.layout.element) + R"(","shape":)" + shape_text(item) +
        R"(,"grid":[)" + std::to_string(item.shape.t) + "," + std::to_string(item.shape.h) + "," +
        std::to_string(item.shape.w) + R"(],"key":)" + std::to_string(item.key) + "}";
    rows.ends.push_back(rows.bytes.size());
  }
  return rows;
}

Result<TransformAnswer> MediaSeat::take(const std::vector<Laid>& laid,
                                        const TransformAnswer& answer) const {
  TransformAnswer out;
  out.kinds = answer.kinds;
  TransformCursor cursor(answer);
  for (const Laid& each : laid) {
    const TransformCursor::Row row = cursor.next();
    if (row.kind == TransformedAs::kTokens) {
      return Status(Code::kUnavailable, "its worker sent garbage: tokens in place of an array");
    }
    std::string text(row.text);
    if (row.kind == TransformedAs::kText) {
      const size_t size = each.item->given.size;
      char* made = each.item->made.data.get();
      std::memcpy(made, slab_->data() + each.made_at, size);
      text = digest_of(std::string_view(made, size)).hex();
    }
    out.sizes.push_back(static_cast<uint32_t>(text.size()));
    out.text += text;
  }
  return out;
}

}  // namespace overlord::workers
