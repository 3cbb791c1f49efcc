#include "overlord/columnar/schema_text.h"

#include <charconv>
#include <cmath>

#include "overlord/columnar/text_rules.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {

using runtime::quote;

void append_json_string(std::string_view text, std::string* out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out->push_back('"');
  size_t plain = 0;  // where the run that needs no escape began
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
    out->append(text.substr(plain, i - plain));
    plain = i + 1;
    if (byte >= 0x20) {
      out->push_back('\\');
      out->push_back(text[i]);
    } else {
      out->append("\\u00");
      out->push_back(kHex[byte >> 4]);
      out->push_back(kHex[byte & 15]);
    }
  }
  out->append(text.substr(plain));
  out->push_back('"');
}

bool append_json_number(double value, std::string* out) {
  if (!std::isfinite(value)) return false;
  char digits[32];
  const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), value);
  if (error != std::errc()) return false;
  const std::string_view text(digits, static_cast<size_t>(end - digits));
  out->append(text);
  // What was written with a point must not come back as an integer.
  if (text.find_first_of(".e") == std::string_view::npos) out->append(".0");
  return true;
}

std::string Interleaver::add(const std::string_view* text, bool image) {
  const auto place = [&] { return "place " + std::to_string(places_); };
  if (text != nullptr && image) return place() + " has both a text and an image";
  if (text == nullptr && !image) return place() + " has neither a text nor an image";
  if (places_++ > 0) out_->append(schema_.separator);
  if (text == nullptr) {
    out_->append(schema_.marker);
    return {};
  }
  --places_;  // for the words of a fault
  if (!is_valid_utf8(*text)) return place() + " is not valid UTF-8";
  if (text->find(schema_.marker) != std::string_view::npos) {
    return "the text of " + place() + " has the marker " + quote(schema_.marker) +
           ", which stands for an image";
  }
  ++places_;
  out_->append(*text);
  return {};
}

std::string Interleaver::finish(const model::SourceLimits& limits) const {
  const std::string_view text = std::string_view(*out_).substr(begin_);
  if (is_blank(text)) {
    return empty_row("no text and no image in " + quote(schema_.columns.front()));
  }
  return fault_of_size(text.size(), limits);
}

std::string fault_of_size(size_t size, const model::SourceLimits& limits) {
  if (size <= limits.max_document_bytes) return {};
  return "its text has " + std::to_string(size) + " bytes, over limits.max_document (" +
         std::to_string(limits.max_document_bytes) + ")";
}

std::string uneven_lists(const model::Source& source, uint64_t texts, uint64_t images) {
  return quote(source.schema.columns[0]) + " has " + std::to_string(texts) + " places and " +
         quote(source.schema.columns[1]) + " has " + std::to_string(images);
}

}  // namespace overlord::columnar
