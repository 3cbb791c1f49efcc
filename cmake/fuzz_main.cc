// main() of fuzz targets where the compiler brings no fuzzer: a small one of our own. It feeds the
// target its seeds and the files named on the command line, then changed copies of them, keeps
// those that reach code nothing else reached (where the build counts that, preset `fuzz`), and
// writes the input of a crash, a broken promise or a hang into a file.
//
// TARGET [--seconds=N] [--runs=N] [--seed=N] [--out=FOLDER] [FILE or FOLDER ...]
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));
std::vector<std::string> fuzz_seeds();  // of the target: good inputs to start from

namespace {

constexpr size_t kEdges = size_t{1} << 16;
constexpr size_t kLongestInput = size_t{1} << 17;
constexpr unsigned kHangSeconds = 20;
constexpr size_t kMostKept = 20'000;

uint8_t edges_now[kEdges];   // how often each step between two places of code was taken
uint8_t edges_ever[kEdges];  // and in which orders of magnitude, by any input so far
uintptr_t place_before = 0;

// The input that runs, for handlers that may not allocate.
const char* running = nullptr;
size_t running_bytes = 0;
char crash_path[512];

extern "C" void write_running_input() {
  const int file = open(crash_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0) return;
  size_t done = 0;
  while (done < running_bytes) {
    const ssize_t wrote = write(file, running + done, running_bytes - done);
    if (wrote <= 0) break;
    done += static_cast<size_t>(wrote);
  }
  close(file);
  constexpr std::string_view kTold = "\nthe input is in ";
  (void)!write(2, kTold.data(), kTold.size());
  (void)!write(2, crash_path, std::strlen(crash_path));
  (void)!write(2, "\n", 1);
}

extern "C" void on_signal(int signal) {
  if (signal == SIGALRM) {
    constexpr std::string_view kTold = "\nan input hangs";
    (void)!write(2, kTold.data(), kTold.size());
  }
  write_running_input();
  std::signal(signal, SIG_DFL);
  if (signal == SIGALRM) _exit(1);
  std::raise(signal);
}

// SplitMix64: all that mutation needs.
struct Chance {
  uint64_t state;
  uint64_t next() {
    uint64_t z = state += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  size_t below(size_t count) { return count == 0 ? 0 : static_cast<size_t>(next() % count); }
};

// Runs an input; whether it took a step, or one so often, as none before it.
bool reaches_new_code(const std::string& input) {
  // A copy of exactly its size, so that one byte too far is seen.
  const std::vector<char> exact(input.begin(), input.end());
  running = exact.data();
  running_bytes = exact.size();
  std::memset(edges_now, 0, sizeof edges_now);
  place_before = 0;
  alarm(kHangSeconds);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(exact.data()), exact.size());
  alarm(0);
  running_bytes = 0;
  bool fresh = false;
  for (size_t i = 0; i < kEdges; ++i) {
    if (edges_now[i] == 0) continue;
    const auto magnitude = static_cast<uint8_t>(1U << (31 - __builtin_clz(edges_now[i])));
    fresh = fresh || (edges_ever[i] & magnitude) == 0;
    edges_ever[i] |= magnitude;
  }
  return fresh;
}

// Numbers that lengths and counts trip over, in one to eight bytes and both orders.
void write_number(Chance& chance, std::string* input) {
  static constexpr uint64_t kNumbers[] = {0,          1,          2,
                                          7,          8,          16,
                                          127,        128,        255,
                                          256,        4096,       32767,
                                          32768,      65535,      65536,
                                          0xFFFFFF,   1 << 24,    0x7FFFFFFF,
                                          0x80000000, 0xFFFFFFFE, 0xFFFFFFFF,
                                          1ULL << 32, 1ULL << 40, 1ULL << 62,
                                          INT64_MAX,  1ULL << 63, UINT64_MAX - 7,
                                          UINT64_MAX};
  static constexpr size_t kWidths[] = {1, 2, 4, 4, 8};
  const size_t width = kWidths[chance.below(std::size(kWidths))];
  if (input->size() < width) return;
  const size_t at = chance.below(input->size() - width + 1);
  uint64_t number = kNumbers[chance.below(std::size(kNumbers))];
  if (chance.below(4) == 0) number = input->size() - at + chance.below(3) - 1;
  const bool little = chance.below(2) == 0;
  for (size_t i = 0; i < width; ++i) {
    const size_t place = little ? i : width - 1 - i;
    (*input)[at + place] = static_cast<char>(number >> (8 * i));
  }
}

void change_once(Chance& chance, const std::string& other, std::string* input) {
  const size_t size = input->size();
  const size_t at = chance.below(size);
  const size_t count = std::min(size - at, 1 + chance.below(chance.below(2) == 0 ? 8 : 300));
  switch (chance.below(10)) {
    case 0:
    case 1:
      if (size > 0) (*input)[at] ^= static_cast<char>(1U << chance.below(8));
      break;
    case 2:
      if (size > 0) (*input)[at] = static_cast<char>(chance.below(256));
      break;
    case 3:
    case 4:
    case 5:
      write_number(chance, input);
      break;
    case 6:
      input->erase(at, count);
      break;
    case 7:  // the same again, there or elsewhere
      input->insert(chance.below(size + 1), std::string(input->substr(at, count)));
      break;
    case 8:
      if (chance.below(4) == 0)
        input->resize(at);
      else if (size > 0)
        input->replace(chance.below(size), count, input->substr(at, count));
      break;
    default:  // a piece of another input
      const size_t from = chance.below(other.size());
      input->replace(at, chance.below(2) == 0 ? count : 0,
                     other.substr(from, 1 + chance.below(other.size() - from)));
  }
  if (input->size() > kLongestInput) input->resize(kLongestInput);
}

struct Options {
  int64_t seconds = 0;
  int64_t runs = 0;
  uint64_t seed = 1;
  std::string out = ".";
  std::vector<std::string> inputs;
};

bool number_of(std::string_view text, std::string_view name, int64_t* to) {
  if (!text.starts_with(name)) return false;
  *to = std::strtoll(std::string(text.substr(name.size())).c_str(), nullptr, 10);
  return true;
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view text = argv[i];
    int64_t seed = 0;
    if (number_of(text, "--seconds=", &options.seconds)) continue;
    if (number_of(text, "--runs=", &options.runs)) continue;
    if (number_of(text, "--seed=", &seed)) {
      options.seed = static_cast<uint64_t>(seed);
    } else if (text.starts_with("--out=")) {
      options.out = text.substr(6);
    } else if (text.starts_with("-")) {
      continue;  // libFuzzer's way of saying the same
    } else if (std::filesystem::is_directory(text)) {
      for (const auto& entry : std::filesystem::directory_iterator(text)) {
        if (entry.is_regular_file()) options.inputs.push_back(contents(entry.path()));
      }
    } else {
      options.inputs.push_back(contents(text));
    }
  }
  return options;
}

// Gives the number of inputs that ran.
int64_t search(const Options& options, std::vector<std::string>* kept) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(options.seconds);
  Chance chance{options.seed};
  int64_t done = 0;
  while (done < options.runs || (options.runs == 0 && std::chrono::steady_clock::now() < end)) {
    // Half of the time one of the newest, which nothing has been made of yet.
    const size_t newest = std::min<size_t>(kept->size(), 32);
    const size_t which =
        chance.below(2) == 0 ? kept->size() - 1 - chance.below(newest) : chance.below(kept->size());
    std::string input = (*kept)[which];
    const std::string& other = (*kept)[chance.below(kept->size())];
    for (size_t changes = 1 + chance.below(chance.below(2) == 0 ? 2 : 10); changes > 0; --changes) {
      change_once(chance, other, &input);
    }
    ++done;
    if (reaches_new_code(input) && kept->size() < kMostKept) kept->push_back(std::move(input));
  }
  return done;
}

}  // namespace

// Called by code that was compiled with -fsanitize-coverage=trace-pc, at every block.
extern "C" __attribute__((no_sanitize_coverage, no_sanitize("address", "undefined"))) void
__sanitizer_cov_trace_pc() {
  const auto place = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  const uintptr_t mixed = (place >> 1) * 0x9E3779B97F4A7C15ULL >> 40;
  uint8_t& count = edges_now[(mixed ^ place_before) % kEdges];
  count = static_cast<uint8_t>(count + (count < 255 ? 1 : 0));
  place_before = mixed >> 1;
}

// That sanitizer has callbacks of its own; abort() it shares with everybody.
extern "C" __attribute__((visibility("default"))) const char* __ubsan_default_options() {
  return "abort_on_error=1:print_stacktrace=1";
}

int main(int argc, char** argv) {
  const Options options = options_of(argc, argv);
  const std::string name = std::filesystem::path(argv[0]).filename().string();
  std::snprintf(crash_path, sizeof crash_path, "%s/%s-%ld.crash", options.out.c_str(), name.c_str(),
                static_cast<long>(getpid()));
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(write_running_input);
  }
  std::signal(SIGALRM, on_signal);
  std::signal(SIGABRT, on_signal);
  if (__sanitizer_set_death_callback == nullptr) std::signal(SIGSEGV, on_signal);
  std::vector<std::string> kept = fuzz_seeds();
  kept.insert(kept.end(), options.inputs.begin(), options.inputs.end());
  for (const std::string& input : kept) reaches_new_code(input);
  const auto seeds = static_cast<int64_t>(kept.size());
  const int64_t made = search(options, &kept);
  std::printf("%s: %lld seeds and %lld inputs made of them, %zu kept; none broke a promise\n",
              name.c_str(), static_cast<long long>(seeds), static_cast<long long>(made),
              kept.size());
  return 0;
}
