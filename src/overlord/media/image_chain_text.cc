// The fields of an image chain's steps, for its text form.
#include <array>
#include <string>

#include "overlord/media/chain_text.h"
#include "overlord/media/image_chain.h"

namespace overlord::media {
namespace {

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
  v.template choice<ResizeFilter>("filter", filter,
                                  {{"bilinear", ResizeFilter::kBilinear},
                                   {"bicubic", ResizeFilter::kBicubic},
                                   {"lanczos", ResizeFilter::kLanczos}});
}

template <typename Visitor, typename Step>
void describe(Visitor& v, Step& step) {
  using Plain = std::remove_const_t<Step>;
  if constexpr (std::is_same_v<Plain, DecodeOptions>) {
    v.template choice<JpegMode>("jpeg", step.jpeg,
                                {{"exact", JpegMode::kExact}, {"scaled", JpegMode::kScaled}});
    v.template choice<AlphaRule>("alpha", step.alpha,
                                 {{"over", AlphaRule::kOver}, {"drop", AlphaRule::kDrop}});
    v.field("background", step.background);
    v.field("max_bytes", step.limits.bytes);
    v.field("max_pixels", step.limits.pixels);
    v.field("max_scans", step.limits.scans);
    v.field("max_ratio", step.limits.ratio);
    v.field("ratio_floor", step.limits.ratio_floor);
  } else if constexpr (std::is_same_v<Plain, ResizeShortStep>) {
    v.field("side", step.side);
  } else if constexpr (std::is_same_v<Plain, SmartResizeStep>) {
    v.field("factor", step.rule.factor);
    v.field("min_pixels", step.rule.min_pixels);
    v.field("max_pixels", step.rule.max_pixels);
  } else if constexpr (std::is_same_v<Plain, AspectBucketStep>) {
    v.field("buckets", step.buckets);
  } else if constexpr (std::is_same_v<Plain, RandomFlipStep>) {
    v.field("chance", step.chance);
  } else if constexpr (std::is_same_v<Plain, TileStep>) {
    v.field("size", step.size);
    v.field("most", step.most);
    v.field("thumbnail", step.thumbnail);
  } else if constexpr (std::is_same_v<Plain, NormaliseStep>) {
    v.field("mean", step.rule.mean);
    v.field("std", step.rule.std);
    v.template choice<NormaliseOrder>(
        "order", step.rule.order,
        {{"rescale_first", NormaliseOrder::kRescaleFirst}, {"fused", NormaliseOrder::kFused}});
  } else if constexpr (std::is_same_v<Plain, PatchifyStep>) {
    v.template choice<PatchLayout>("layout", step.rule.layout,
                                   {{"qwen2vl", PatchLayout::kQwen2Vl},
                                    {"vit", PatchLayout::kVit},
                                    {"vit_last", PatchLayout::kVitLast}});
    v.field("patch", step.rule.patch);
    if (step.rule.layout == PatchLayout::kQwen2Vl) {
      v.field("temporal", step.rule.temporal);
      v.field("merge", step.rule.merge);
    } else {
      step.rule.temporal = step.rule.merge = 1;
    }
  } else if constexpr (requires { step.size.width; }) {
    describe_size(v, step.size);
    if constexpr (std::is_same_v<Plain, RandomResizedCropStep>) {
      v.field("area_min", step.area.area_min);
      v.field("area_max", step.area.area_max);
      v.field("aspect_min", step.area.aspect_min);
      v.field("aspect_max", step.area.aspect_max);
    }
  }
  if constexpr (requires { step.filter; }) describe_filter(v, step.filter);
}

constexpr auto kDescribe = [](auto& visitor, auto& step) { describe(visitor, step); };

}  // namespace

std::string chain_text(const ImageChain& chain) {
  return print_steps<ImagePrinter>(chain.decode, chain.steps, kDescribe);
}

Result<ImageChain> parse_chain(std::string_view text) {
  ImageChain chain;
  OVERLORD_RETURN_IF_ERROR(
      parse_steps<ImageParser>("image chain", text, &chain.decode, &chain.steps, kDescribe));
  return chain;
}

}  // namespace overlord::media
