#include "overlord/testing/sound_corpus.h"

#include "overlord/base/rng.h"
#include "overlord/testing/picture_corpus.h"
#include "overlord/testing/tar_file.h"

namespace overlord::testing {
namespace {

constexpr uint64_t kLengthKey = 0x736f756e;

void put_little(std::string* out, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

}  // namespace

bool has_sound(uint64_t sample) { return sample % 3 != 2; }

uint32_t sound_samples(const SoundSpec& spec, uint64_t sample) {
  return spec.unit * static_cast<uint32_t>(1 + random_u64(kLengthKey, sample, 0) % spec.most_units);
}

int16_t pressure_at(uint64_t sample, uint32_t time) {
  return static_cast<int16_t>((sample * 977 + uint64_t{time} * time * 7 + time * 31) % 60000 -
                              30000);
}

std::string wav_of(const SoundSpec& spec, uint64_t sample, bool broken) {
  const uint32_t width = broken ? 4 : 2;
  const uint32_t count = sound_samples(spec, sample);
  std::string wav = "RIFF";
  put_little(&wav, 36 + count * width, 4);
  wav += "WAVEfmt ";
  put_little(&wav, 16, 4);
  put_little(&wav, broken ? 3 : 1, 2);  // floats, or integers
  put_little(&wav, 1, 2);
  put_little(&wav, spec.rate, 4);
  put_little(&wav, spec.rate * width, 4);
  put_little(&wav, width, 2);
  put_little(&wav, width * 8, 2);
  wav += "data";
  put_little(&wav, count * width, 4);
  for (uint32_t time = 0; time < count; ++time) {
    if (broken) {
      put_little(&wav, 0x7fc00000u, 4);  // no number
    } else {
      put_little(&wav, static_cast<uint16_t>(pressure_at(sample, time)), 2);
    }
  }
  return wav;
}

Files sound_corpus(const SoundSpec& spec, uint64_t broken) {
  Files files;
  for (uint32_t shard = 0; shard < spec.shards; ++shard) {
    std::string tar;
    for (uint32_t i = 0; i < spec.samples; ++i) {
      const uint64_t sample = uint64_t{shard} * spec.samples + i;
      const std::string name = std::to_string(sample);
      put_member(&tar, name + ".txt", "clip " + name);
      if (has_picture(sample)) put_member(&tar, name + ".png", png_of({}, sample));
      if (has_sound(sample)) {
        put_member(&tar, name + ".wav", wav_of(spec, sample, sample == broken));
      }
    }
    end_tar(&tar);
    files[spec.directory + "/" + spec.source + "-0000" + std::to_string(shard) + ".tar"] = tar;
  }
  return files;
}

}  // namespace overlord::testing
