// A tiny corpus of sounds with texts, some with a picture too, in memory: WebDataset tars of WAV
// files, written from the description of the format alone. Every sample can be computed again.
#pragma once

#include <cstdint>
#include <string>

#include "overlord/testing/corpus.h"

namespace overlord::testing {

struct SoundSpec {
  std::string source = "clips";
  std::string directory = "mem:/corpus";
  uint32_t shards = 2;
  uint32_t samples = 20;  // per shard; every third one has no sound
  uint32_t rate = 16000;
  uint32_t unit = 160;      // lengths are multiples of it ...
  uint32_t most_units = 9;  // ... from 1 to so many
};

// `sample` counts over all shards, `time` over the sound's samples.
bool has_sound(uint64_t sample);
uint32_t sound_samples(const SoundSpec& spec, uint64_t sample);
int16_t pressure_at(uint64_t sample, uint32_t time);
// One channel of 16 bits. `broken`: of floats that are no numbers, which no header tells.
std::string wav_of(const SoundSpec& spec, uint64_t sample, bool broken = false);

// SAMPLE.txt, SAMPLE.wav where it has one, and SAMPLE.png where picture_corpus has one; `broken`
// has a sound that does not decode.
Files sound_corpus(const SoundSpec& spec, uint64_t broken = ~uint64_t{0});

}  // namespace overlord::testing
