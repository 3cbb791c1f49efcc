// The text form of an audio chain. One list of fields per step serves printing, parsing and the
// messages that name what is allowed.
#include <charconv>
#include <string>
#include <type_traits>
#include <utility>

#include "overlord/media/audio_chain.h"
#include "overlord/runtime/quote.h"

namespace overlord::media {
namespace {

using runtime::quote;
template <typename Enum>
using Choices = std::vector<std::pair<std::string_view, Enum>>;

// Prints the fields that describe() names.
class Printer {
 public:
  template <typename Number>
  void field(std::string_view name, const Number& value) {
    text.append(" ").append(name).append("=").append(std::to_string(value));
  }
  template <typename Enum>
  void choice(std::string_view name, const Enum& value, const Choices<Enum>& choices) {
    for (const auto& [word, one] : choices) {
      if (one == value) text.append(" ").append(name).append("=").append(word);
    }
  }

  std::string text;
};

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

  template <typename Number>
  void field(std::string_view name, Number& value) {
    std::string_view text;
    if (!take(name, &text)) return;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      fail(name, "a whole number", text);
    }
  }
  template <typename Enum>
  void choice(std::string_view name, Enum& value, const Choices<Enum>& choices) {
    std::string_view text;
    if (!take(name, &text)) return;
    std::string allowed;
    for (const auto& [word, one] : choices) {
      if (word == text) {
        value = one;
        return;
      }
      allowed.append(allowed.empty() ? "" : ", ").append(word);
    }
    fail(name, "one of " + allowed, text);
  }

  Status finish() {
    if (status_.ok() && !pairs_.empty()) {
      status_ = invalid_argument("audio chain: " + std::string(step_) + " has no option " +
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
    status_ = invalid_argument("audio chain: " + std::string(step_) + " " + std::string(name) +
                               " must be " + wanted + "; got " + quote(got));
  }

  std::string_view step_;
  std::vector<std::pair<std::string_view, std::string_view>> pairs_;
  std::string known_;
  Status status_;
};

// --- The fields of every step, for both directions -----------------------------------------------
template <typename Visitor, typename Step>
void describe(Visitor& v, Step& step) {
  using Plain = std::remove_const_t<Step>;
  if constexpr (std::is_same_v<Plain, AudioLimits>) {
    v.field("max_bytes", step.bytes);
    v.field("max_frames", step.frames);
    v.field("max_channels", step.channels);
    v.field("max_seconds", step.seconds);
    v.field("max_ratio", step.ratio);
    v.field("ratio_floor", step.ratio_floor);
  } else if constexpr (std::is_same_v<Plain, ResampleStep>) {
    v.field("rate", step.rate);
    v.template choice<ResampleQuality>("quality", step.quality,
                                       {{"fast", ResampleQuality::kFast},
                                        {"standard", ResampleQuality::kStandard},
                                        {"high", ResampleQuality::kHigh}});
  } else if constexpr (std::is_same_v<Plain, LogMelStep>) {
    v.field("mels", step.mels);
    v.template choice<AudioTokens>("tokens", step.tokens,
                                   {{"frames", AudioTokens::kFrames},
                                    {"whisper", AudioTokens::kWhisper},
                                    {"qwen2_audio", AudioTokens::kQwen2Audio}});
  } else if constexpr (requires { step.samples; }) {
    v.field("samples", step.samples);
    if constexpr (std::is_same_v<Plain, ChunkStep>) {
      v.field("hop", step.hop);
      v.template choice<LastChunk>("last", step.last,
                                   {{"pad", LastChunk::kPad}, {"drop", LastChunk::kDrop}});
    }
  }
}

template <size_t... I>
std::vector<AudioStep> every_step(std::index_sequence<I...>) {
  return {AudioStep(std::in_place_index<I>)...};
}

const std::vector<AudioStep>& default_steps() {
  static const auto* const steps = new std::vector<AudioStep>(
      every_step(std::make_index_sequence<std::variant_size_v<AudioStep>>()));
  return *steps;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.remove_suffix(1);
  return text;
}

Status unknown_step(std::string_view name) {
  std::string allowed = "decode";
  for (const AudioStep& step : default_steps()) allowed.append(", ").append(step_name(step));
  return invalid_argument("audio chain: no step is called " + quote(name) +
                          "; the steps are: " + allowed);
}

Status parse_step(std::string_view text, bool first, AudioChain* chain) {
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
      return invalid_argument("audio chain: " + std::string(name) + " takes key=value pairs; got " +
                              quote(word));
    }
    pairs.emplace_back(word.substr(0, at), word.substr(at + 1));
  }
  Parser parser(name, std::move(pairs));
  if (name == "decode") {
    if (!first) return invalid_argument("audio chain: decode comes first");
    describe(parser, chain->limits);
    return parser.finish();
  }
  for (const AudioStep& known : default_steps()) {
    if (step_name(known) != name) continue;
    chain->steps.push_back(known);
    std::visit([&](auto& step) { describe(parser, step); }, chain->steps.back());
    return parser.finish();
  }
  return unknown_step(name);
}

}  // namespace

std::string chain_text(const AudioChain& chain) {
  Printer printer;
  printer.text = "decode";
  describe(printer, chain.limits);
  for (const AudioStep& step : chain.steps) {
    printer.text.append("; ").append(step_name(step));
    std::visit([&](const auto& one) { describe(printer, one); }, step);
  }
  return printer.text;
}

Result<AudioChain> parse_audio_chain(std::string_view text) {
  AudioChain chain;
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
