// The fields that steps of pictures and of clips share, for the text forms of both chains.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/media/chain_text.h"
#include "overlord/media/image/image.h"
#include "overlord/media/image/patchify.h"
#include "overlord/media/image/resize.h"

namespace overlord::media {

class ImagePrinter : public ChainPrinter {
 public:
  using ChainPrinter::field;
  void field(std::string_view name, const std::array<float, 3>& values) {
    std::string list;
    for (const float value : values) {
      char digits[32];
      const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
      list.append(list.empty() ? "" : ",").append(digits, end);
    }
    add(name, list);
  }
  void field(std::string_view name, const std::array<uint8_t, 3>& values) {
    std::string list;
    for (const uint8_t value : values) {
      list.append(list.empty() ? "" : ",").append(std::to_string(value));
    }
    add(name, list);
  }
  void field(std::string_view name, const std::vector<ImageSize>& sizes) {
    std::string list;
    for (const ImageSize size : sizes) {
      list.append(list.empty() ? "" : ",")
          .append(std::to_string(size.width) + "x" + std::to_string(size.height));
    }
    add(name, list);
  }
};

class ImageParser : public ChainParser {
 public:
  using ChainParser::ChainParser;
  using ChainParser::field;
  void field(std::string_view name, std::array<float, 3>& values) {
    triple(name, values, "three numbers, as 0.5,0.5,0.5");
  }
  void field(std::string_view name, std::array<uint8_t, 3>& values) {
    triple(name, values, "three levels of 0 to 255, as 255,255,255");
  }
  void field(std::string_view name, std::vector<ImageSize>& sizes) {
    std::string_view text;
    if (!take(name, &text)) return;
    sizes.clear();
    for (const std::string_view part : split_text(text, ',')) {
      const std::vector<std::string_view> sides = split_text(part, 'x');
      ImageSize size;
      if (sides.size() != 2 || !read_number(sides[0], &size.width) ||
          !read_number(sides[1], &size.height)) {
        return fail(name, "sizes as 512x512,640x384", text);
      }
      sizes.push_back(size);
    }
  }

 private:
  template <typename Number>
  void triple(std::string_view name, std::array<Number, 3>& values, const std::string& wanted) {
    std::string_view text;
    if (!take(name, &text)) return;
    const std::vector<std::string_view> parts = split_text(text, ',');
    bool good = parts.size() == 3;
    for (size_t i = 0; good && i < 3; ++i) good = read_number(parts[i], &values[i]);
    if (!good) fail(name, wanted, text);
  }
};

// The fields of every step, for both directions.
template <typename Visitor, typename Size>
void describe_size(Visitor& v, Size& size) {
  v.field("width", size.width);
  v.field("height", size.height);
}
template <typename Visitor, typename Filter>
void describe_filter(Visitor& v, Filter& filter) {
  v.field("filter", filter);
}

template <typename Visitor, typename Rule>
void describe_normalise(Visitor& v, Rule& rule) {
  v.field("mean", rule.mean);
  v.field("std", rule.std);
  v.field("order", rule.order);
}
template <typename Visitor, typename Rule>
void describe_patchify(Visitor& v, Rule& rule) {
  v.field("layout", rule.layout);
  v.field("patch", rule.patch);
  if (rule.layout == PatchLayout::kQwen2vl) {
    v.field("temporal", rule.temporal);
    v.field("merge", rule.merge);
  } else {
    rule.temporal = rule.merge = 1;
  }
}

}  // namespace overlord::media
