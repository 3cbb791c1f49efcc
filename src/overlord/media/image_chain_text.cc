// The text form of a chain. One table of fields per step serves printing, parsing and the messages
// that name what is allowed.
#include <array>
#include <charconv>
#include <string>
#include <utility>

#include "overlord/media/image_chain.h"
#include "overlord/runtime/quote.h"

namespace overlord::media {
namespace {

using runtime::quote;

// Prints the fields that describe() names.
class Printer {
 public:
  void field(std::string_view name, const int32_t& value) { add(name, std::to_string(value)); }
  void field(std::string_view name, const int64_t& value) { add(name, std::to_string(value)); }
  void field(std::string_view name, const bool& value) { add(name, value ? "true" : "false"); }
  void field(std::string_view name, const std::array<float, 3>& values) {
    std::string text;
    for (const float value : values) {
      char digits[32];
      const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
      text.append(text.empty() ? "" : ",").append(digits, end);
    }
    add(name, text);
  }
  void field(std::string_view name, const std::array<uint8_t, 3>& values) {
    std::string text;
    for (const uint8_t value : values) {
      text.append(text.empty() ? "" : ",").append(std::to_string(value));
    }
    add(name, text);
  }
  void field(std::string_view name, const std::vector<ImageSize>& sizes) {
    std::string text;
    for (const ImageSize size : sizes) {
      text.append(text.empty() ? "" : ",")
          .append(std::to_string(size.width) + "x" + std::to_string(size.height));
    }
    add(name, text);
  }
  template <typename Enum>
  void choice(std::string_view name, const Enum& value,
              const std::vector<std::pair<std::string_view, Enum>>& choices) {
    for (const auto& [text, one] : choices) {
      if (one == value) add(name, std::string(text));
    }
  }

  std::string text;

 private:
  void add(std::string_view name, const std::string& value) {
    text.append(" ").append(name).append("=").append(value);
  }
};

template <typename Number>
bool read_number(std::string_view text, Number* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  for (;;) {
    const size_t at = text.find(separator);
    out.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    text.remove_prefix(at + 1);
  }
}

// Takes the fields that describe() names out of key=value pairs; what is left over is unknown.
class Parser {
 public:
  Parser(std::string_view step, std::vector<std::pair<std::string_view, std::string_view>> pairs)
      : step_(step), pairs_(std::move(pairs)) {}

  void field(std::string_view name, int32_t& value) { number(name, value, "a whole number"); }
  void field(std::string_view name, int64_t& value) { number(name, value, "a whole number"); }
  void field(std::string_view name, bool& value) {
    choice<bool>(name, value, {{"true", true}, {"false", false}});
  }
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
    for (const std::string_view part : split(text, ',')) {
      const std::vector<std::string_view> sides = split(part, 'x');
      ImageSize size;
      if (sides.size() != 2 || !read_number(sides[0], &size.width) ||
          !read_number(sides[1], &size.height)) {
        return fail(name, "sizes as 512x512,640x384", text);
      }
      sizes.push_back(size);
    }
  }
  template <typename Enum>
  void choice(std::string_view name, Enum& value,
              const std::vector<std::pair<std::string_view, Enum>>& choices) {
    std::string_view text;
    if (!take(name, &text)) return;
    std::string allowed;
    for (const auto& [choice, one] : choices) {
      if (choice == text) {
        value = one;
        return;
      }
      allowed.append(allowed.empty() ? "" : ", ").append(choice);
    }
    fail(name, "one of " + allowed, text);
  }

  Status finish() {
    if (status_.ok() && !pairs_.empty()) {
      status_ = invalid_argument("image chain: " + std::string(step_) + " has no option " +
                                 quote(pairs_.front().first) +
                                 "; it has: " + (known_.empty() ? "none" : known_));
    }
    return status_;
  }

 private:
  bool take(std::string_view name, std::string_view* text) {
    known_.append(known_.empty() ? "" : ", ").append(name);
    for (auto pair = pairs_.begin(); pair != pairs_.end(); ++pair) {
      if (pair->first != name) continue;
      *text = pair->second;
      pairs_.erase(pair);
      return true;
    }
    return false;
  }
  void fail(std::string_view name, const std::string& wanted, std::string_view got) {
    if (!status_.ok()) return;
    status_ = invalid_argument("image chain: " + std::string(step_) + " " + std::string(name) +
                               " must be " + wanted + "; got " + quote(got));
  }
  template <typename Number>
  void number(std::string_view name, Number& value, const std::string& wanted) {
    std::string_view text;
    if (take(name, &text) && !read_number(text, &value)) fail(name, wanted, text);
  }
  template <typename Number>
  void triple(std::string_view name, std::array<Number, 3>& values, const std::string& wanted) {
    std::string_view text;
    if (!take(name, &text)) return;
    const std::vector<std::string_view> parts = split(text, ',');
    bool good = parts.size() == 3;
    for (size_t i = 0; good && i < 3; ++i) good = read_number(parts[i], &values[i]);
    if (!good) fail(name, wanted, text);
  }

  std::string_view step_;
  std::vector<std::pair<std::string_view, std::string_view>> pairs_;
  std::string known_;
  Status status_;
};

// --- The fields of every step, for both directions -----------------------------------------------
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

template <size_t... I>
std::vector<ImageStep> every_step(std::index_sequence<I...>) {
  return {ImageStep(std::in_place_index<I>)...};
}

const std::vector<ImageStep>& default_steps() {
  static const auto* const steps = new std::vector<ImageStep>(
      every_step(std::make_index_sequence<std::variant_size_v<ImageStep>>()));
  return *steps;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.remove_suffix(1);
  return text;
}

Status unknown_step(std::string_view name) {
  std::string allowed = "decode";
  for (const ImageStep& step : default_steps()) allowed.append(", ").append(step_name(step));
  return invalid_argument("image chain: no step is called " + quote(name) +
                          "; the steps are: " + allowed);
}

Status parse_step(std::string_view text, bool first, ImageChain* chain) {
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  std::string_view name;
  for (const std::string_view word : split(text, ' ')) {
    if (word.empty()) continue;
    if (name.empty()) {
      name = word;
      continue;
    }
    const size_t at = word.find('=');
    if (at == std::string_view::npos) {
      return invalid_argument("image chain: " + std::string(name) + " takes key=value pairs; got " +
                              quote(word));
    }
    pairs.emplace_back(word.substr(0, at), word.substr(at + 1));
  }
  Parser parser(name, std::move(pairs));
  if (name == "decode") {
    if (!first) return invalid_argument("image chain: decode comes first");
    describe(parser, chain->decode);
    return parser.finish();
  }
  for (const ImageStep& known : default_steps()) {
    if (step_name(known) != name) continue;
    chain->steps.push_back(known);
    std::visit([&](auto& step) { describe(parser, step); }, chain->steps.back());
    return parser.finish();
  }
  return unknown_step(name);
}

}  // namespace

std::string chain_text(const ImageChain& chain) {
  Printer printer;
  printer.text = "decode";
  describe(printer, chain.decode);
  for (const ImageStep& step : chain.steps) {
    printer.text.append("; ").append(step_name(step));
    ImageStep copy = step;
    std::visit([&](auto& one) { describe(printer, one); }, copy);
  }
  return printer.text;
}

Result<ImageChain> parse_chain(std::string_view text) {
  ImageChain chain;
  bool first = true;
  for (const std::string_view part : split(text, ';')) {
    const std::string_view step = trim(part);
    if (step.empty()) continue;
    if (const Status status = parse_step(step, first, &chain); !status.ok()) return status;
    first = false;
  }
  return chain;
}

}  // namespace overlord::media
