// The fields that only steps of pictures and of clips have, for the text forms of both chains.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/media/chain_text.h"
#include "overlord/media/image/image.h"
#include "overlord/media/image/patchify.h"

namespace overlord::media {

class ImagePrinter : public ChainPrinter {
 public:
  using ChainPrinter::field;
  template <typename Number>
  void field(std::string_view name, const std::array<Number, 3>& values) {
    std::string list;
    for (const Number value : values) {
      char digits[32];
      const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
      list.append(list.empty() ? "" : ",").append(digits, end);
    }
    add(name, list);
  }
  void field(std::string_view name, const std::vector<ImageSize>& sizes) {
    std::string list;
    for (const ImageSize size : sizes) list.append(list.empty() ? "" : ",").append(size_text(size));
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

// Which fields it has depends on the first.
template <typename Visitor>
void describe(Visitor& visitor, Patchify& rule) {
  visitor.field("layout", rule.layout);
  visitor.field("patch", rule.patch);
  if (rule.layout == PatchLayout::kQwen2vl) {
    visitor.field("temporal", rule.temporal);
    visitor.field("merge", rule.merge);
  } else {
    rule.temporal = rule.merge = 1;
  }
}

}  // namespace overlord::media
