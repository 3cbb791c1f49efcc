// The text form that all chains share: "decode KEY=VALUE ...; STEP KEY=VALUE ...". A chain is a
// struct of what decoding needs and of its steps; describe() names the fields of each, which serves
// printing, parsing and the messages that say what is allowed.
#pragma once

#include <charconv>
#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "overlord/base/enum_names.h"
#include "overlord/base/fields.h"
#include "overlord/base/status.h"
#include "overlord/runtime/quote.h"

namespace overlord::media {

using TextPairs = std::vector<std::pair<std::string_view, std::string_view>>;

inline std::vector<std::string_view> split_text(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  for (;;) {
    const size_t at = text.find(separator);
    out.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    text.remove_prefix(at + 1);
  }
}

inline std::string_view trim_text(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.remove_suffix(1);
  return text;
}

template <typename Number>
bool read_number(std::string_view text, Number* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

// Prints the fields that describe() names.
class ChainPrinter {
 public:
  void field(std::string_view name, const std::integral auto& value) {
    add(name, std::to_string(value));
  }
  void field(std::string_view name, const bool& value) { add(name, value ? "true" : "false"); }
  template <typename Enum>
    requires std::is_enum_v<Enum>
  void field(std::string_view name, const Enum& value) {
    add(name, enum_name(value));
  }
  void add(std::string_view name, std::string_view value) {
    text.append(" ").append(name).append("=").append(value);
  }

  std::string text;
};

// Takes the fields that describe() names out of key=value pairs; what is left over is unknown.
class ChainParser {
 public:
  // `chain`: what messages call it, "image chain".
  ChainParser(std::string_view chain, std::string_view step, TextPairs pairs)
      : chain_(chain), step_(step), pairs_(std::move(pairs)) {}

  void field(std::string_view name, std::integral auto& value) {
    std::string_view text;
    if (take(name, &text) && !read_number(text, &value)) fail(name, "a whole number", text);
  }
  void field(std::string_view name, bool& value) {
    std::string_view text;
    if (!take(name, &text)) return;
    value = text == "true";
    if (!value && text != "false") fail(name, "one of true, false", text);
  }
  template <typename Enum>
    requires std::is_enum_v<Enum>
  void field(std::string_view name, Enum& value) {
    std::string_view text;
    if (!take(name, &text)) return;
    std::string allowed;
    for (size_t i = 0; i < kEnumerators<Enum>; ++i) {
      const auto one = static_cast<Enum>(i);
      if (enum_name(one) == text) {
        value = one;
        return;
      }
      allowed.append(allowed.empty() ? "" : ", ").append(enum_name(one));
    }
    fail(name, "one of " + allowed, text);
  }

  Status finish() {
    if (status_.ok() && !pairs_.empty()) {
      status_ = invalid_argument(chain_ + ": " + step_ + " has no option " +
                                 runtime::quote(pairs_.front().first) +
                                 "; it has: " + (known_.empty() ? "none" : known_));
    }
    return status_;
  }

 protected:
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
    status_ = invalid_argument(chain_ + ": " + step_ + " " + std::string(name) + " must be " +
                               wanted + "; got " + runtime::quote(got));
  }

 private:
  std::string chain_;
  std::string step_;
  TextPairs pairs_;
  std::string known_;
  Status status_;
};

template <typename T>
concept Limits = requires(T limits) { limits.bytes; };

// The fields of `told`, by its one list (base/fields.h), whose names and order are those of the
// text. Fields of a struct inside of it stand among its own. Limits say what is the most.
template <typename Visitor, typename T>
void describe(Visitor& visitor, T& told) {
  if constexpr (!std::is_empty_v<T>) {
    for_each_field(told, [&](std::string_view name, auto& field) {
      if constexpr (Limits<T>) {
        visitor.field(name == "ratio_floor" ? "ratio_floor" : "max_" + std::string(name), field);
      } else if constexpr (requires { visitor.field(name, field); }) {
        visitor.field(name, field);
      } else {
        describe(visitor, field);
      }
    });
  }
}

// One of every alternative of a variant, with default values.
template <typename Step, size_t... I>
std::vector<Step> every_step(std::index_sequence<I...>) {
  return {Step(std::in_place_index<I>)...};
}
template <typename Step>
const std::vector<Step>& default_steps() {
  static const auto* const steps = new std::vector<Step>(
      every_step<Step>(std::make_index_sequence<std::variant_size_v<Step>>()));
  return *steps;
}

template <typename Printer, typename Chain>
std::string print_chain(Chain chain) {  // a copy: the same describe() also parses
  auto& [decode, steps] = chain;
  Printer printer;
  printer.text = "decode";
  describe(printer, decode);
  for (auto& step : steps) {
    printer.text.append("; ").append(step_name(step));
    std::visit([&](auto& one) { describe(printer, one); }, step);
  }
  return printer.text;
}

template <typename Parser, typename Step, typename Decode>
Status parse_step(std::string_view chain, std::string_view text, bool first, Decode* decode,
                  std::vector<Step>* steps) {
  TextPairs pairs;
  std::string_view name;
  for (const std::string_view word : split_text(text, ' ')) {
    if (word.empty()) continue;
    if (name.empty()) {
      name = word;
      continue;
    }
    const size_t at = word.find('=');
    if (at == std::string_view::npos) {
      return invalid_argument(std::string(chain) + ": " + std::string(name) +
                              " takes key=value pairs; got " + runtime::quote(word));
    }
    pairs.emplace_back(word.substr(0, at), word.substr(at + 1));
  }
  Parser parser(chain, name, std::move(pairs));
  if (name == "decode") {
    if (!first) return invalid_argument(std::string(chain) + ": decode comes first");
    describe(parser, *decode);
    return parser.finish();
  }
  std::string allowed = "decode";
  for (const Step& known : default_steps<Step>()) {
    allowed.append(", ").append(step_name(known));
    if (step_name(known) != name) continue;
    steps->push_back(known);
    std::visit([&](auto& step) { describe(parser, step); }, steps->back());
    return parser.finish();
  }
  return invalid_argument(std::string(chain) + ": no step is called " + runtime::quote(name) +
                          "; the steps are: " + allowed);
}

// `name`: what messages call the chain.
template <typename Chain, typename Parser>
Result<Chain> parse_steps(std::string_view name, std::string_view text) {
  Chain chain;
  auto& [decode, steps] = chain;
  bool first = true;
  for (const std::string_view part : split_text(text, ';')) {
    const std::string_view step = trim_text(part);
    if (step.empty()) continue;
    OVERLORD_RETURN_IF_ERROR(parse_step<Parser>(name, step, first, &decode, &steps));
    first = false;
  }
  return chain;
}

}  // namespace overlord::media
