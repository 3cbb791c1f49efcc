#include "overlord/media/audio/audio_decode.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "overlord/base/enum_names.h"
#include "overlord/media/audio/kept_sounds.h"
#include "overlord/media/image/image_decode.h"
#include "overlord/media/refusals.h"

#ifdef OVERLORD_HAS_AUDIO
#include <sndfile.h>
#endif

namespace overlord::media {
namespace {

#ifdef OVERLORD_HAS_AUDIO

// The library's view of bytes in memory, which may be the begin of a longer file.
struct MemoryFile {
  std::string_view bytes;
  uint64_t size_bytes = 0;
  uint64_t at = 0;
};

sf_count_t file_length(void* file) {
  return static_cast<sf_count_t>(static_cast<MemoryFile*>(file)->size_bytes);
}
sf_count_t file_seek(sf_count_t offset, int whence, void* file) {
  auto& memory = *static_cast<MemoryFile*>(file);
  const auto size = static_cast<sf_count_t>(memory.size_bytes);
  sf_count_t at = offset;
  if (whence == SEEK_CUR) at += static_cast<sf_count_t>(memory.at);
  if (whence == SEEK_END) at += size;
  memory.at = static_cast<uint64_t>(std::clamp<sf_count_t>(at, 0, size));
  return static_cast<sf_count_t>(memory.at);
}
// Behind the begin that is there come zeros: the library gives up where nothing can be read.
sf_count_t file_read(void* to, sf_count_t count, void* file) {
  auto& memory = *static_cast<MemoryFile*>(file);
  const uint64_t left = memory.size_bytes - memory.at;
  const uint64_t taken =
      std::min<uint64_t>(left, static_cast<uint64_t>(std::max<sf_count_t>(count, 0)));
  const uint64_t begin = std::min<uint64_t>(memory.at, memory.bytes.size());
  const uint64_t there = std::min<uint64_t>(taken, memory.bytes.size() - begin);
  if (there > 0) std::memcpy(to, memory.bytes.data() + begin, there);
  if (taken > there) std::memset(static_cast<char*>(to) + there, 0, taken - there);
  memory.at += taken;
  return static_cast<sf_count_t>(taken);
}
sf_count_t file_write(const void*, sf_count_t, void*) { return 0; }
sf_count_t file_tell(void* file) {
  return static_cast<sf_count_t>(static_cast<MemoryFile*>(file)->at);
}

// An open file of the library, closed at the end of the scope.
class OpenSound {
 public:
  explicit OpenSound(std::string_view bytes) : OpenSound(bytes, bytes.size()) {}
  OpenSound(std::string_view bytes, uint64_t size_bytes) : memory_{bytes, size_bytes} {
    SF_VIRTUAL_IO io = {file_length, file_seek, file_read, file_write, file_tell};
    file_ = sf_open_virtual(&io, SFM_READ, &info_, &memory_);
  }
  ~OpenSound() {
    if (file_ != nullptr) sf_close(file_);
  }
  OpenSound(const OpenSound&) = delete;
  OpenSound& operator=(const OpenSound&) = delete;

  // Why the library would not open it, or ok.
  Status opened(AudioFormat format) const {
    if (file_ != nullptr) return {};
    // Of an MP3 without frames the library says that the file does not exist.
    const std::string said =
        format == AudioFormat::kMp3 ? "no MPEG audio frames are found in it" : sf_strerror(nullptr);
    return bad_data(enum_name(format) + " cannot be decoded: " + said);
  }
  const SF_INFO& info() const { return info_; }
  int64_t read(float* to, int64_t frames) { return sf_readf_float(file_, to, frames); }

 private:
  MemoryFile memory_;
  SF_INFO info_ = {};
  SNDFILE* file_ = nullptr;
};

// What the library may not be given: OGG whose headers fail (check_ogg_headers says why). It looks
// behind ID3 tags for any format it knows; OGG has no business there.
Status check_before_opening(std::string_view bytes, AudioFormat format) {
  if (format == AudioFormat::kOgg) return check_ogg_headers(bytes);
  if (format != AudioFormat::kMp3) return {};
  const uint64_t at = behind_id3_tags(bytes);
  if (at >= bytes.size() || !bytes.substr(at).starts_with("OggS")) return {};
  return bad_data("mp3 cannot be decoded: behind its ID3 tag stands OGG; take the tag off");
}

Status check_opened(const OpenSound& sound, const AudioHeader& header) {
  OVERLORD_RETURN_IF_ERROR(sound.opened(header.format));
  const SF_INFO& info = sound.info();
  if (info.channels == header.channels && info.samplerate == header.sample_rate) return {};
  return bad_data(enum_name(header.format) +
                  " contradicts its header: " + std::to_string(header.channels) + " channels at " +
                  std::to_string(header.sample_rate) + " Hz are promised, the decoder finds " +
                  std::to_string(info.channels) + " at " + std::to_string(info.samplerate));
}

// Spreads a block over planes, or adds it up into one.
void place(const float* from, int64_t frames, int32_t channels, bool mono, int64_t at, Sound* out) {
  if (channels == 1) {
    std::memcpy(out->channel(0) + at, from, static_cast<size_t>(frames) * sizeof(float));
    return;
  }
  if (!mono) {
    for (int32_t c = 0; c < channels; ++c) {
      float* const to = out->channel(c) + at;
      for (int64_t i = 0; i < frames; ++i) to[i] = from[i * channels + c];
    }
    return;
  }
  float* const to = out->channel(0) + at;
  const auto count = static_cast<float>(channels);
  for (int64_t i = 0; i < frames; ++i) {
    float sum = from[i * channels];
    for (int32_t c = 1; c < channels; ++c) sum += from[i * channels + c];
    to[i] = sum / count;
  }
}

// Sums of larger samples overflow in filters and spectra, and which bits a value that is no number
// has is the CPU's choice. Infinities and what is no number are larger still, by their bits.
Status check_numbers(const float* samples, int64_t count, int32_t channels, int64_t before) {
  constexpr uint32_t kInfinite = 0x7F800000;
  constexpr uint32_t kTooLarge = (127U + 40U) << 23U;  // 2^40
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, samples + i, sizeof bits);
    bits &= 0x7FFFFFFF;
    if (bits >= kTooLarge) {
      const std::string place = " at sample " + std::to_string(before + i / channels) +
                                " of channel " + std::to_string(i % channels);
      if (bits < kInfinite) return bad_data("sound is too loud, more than 2^40," + place);
      return bad_data("sound holds no number" + place + " (NaN or infinite)");
    }
  }
  return {};
}

#endif

}  // namespace

void Sound::shape(int32_t new_channels, int64_t new_frames) {
  channels = new_channels;
  frames = new_frames;
  const auto wanted = static_cast<size_t>(channels) * static_cast<size_t>(frames);
  if (samples.size() < wanted) samples.resize(wanted);
}

Status check_limits(const AudioHeader& header, size_t encoded_bytes, const AudioLimits& limits) {
  const auto encoded = static_cast<int64_t>(encoded_bytes);
  OVERLORD_RETURN_IF_ERROR(
      within_limit("sound", "size in bytes", encoded, "max_bytes", limits.bytes));
  OVERLORD_RETURN_IF_ERROR(within_limit("sound", "number of channels", header.channels,
                                        "max_channels", limits.channels));
  OVERLORD_RETURN_IF_ERROR(within_limit("sound", "number of samples per channel", header.frames,
                                        "max_frames", limits.frames));
  OVERLORD_RETURN_IF_ERROR(within_limit("sound", "duration in seconds",
                                        header.frames / header.sample_rate, "max_seconds",
                                        limits.seconds));
  const int64_t decoded = header.frames * header.channels * 4;
  if (decoded <= limits.ratio_floor) return {};
  return within_limit("sound", "decoded bytes per encoded byte",
                      decoded / std::max<int64_t>(encoded, 1), "max_ratio", limits.ratio);
}

#ifdef OVERLORD_HAS_AUDIO

Result<AudioHeader> probe_mp3(std::string_view bytes, uint64_t size_bytes) {
  OVERLORD_RETURN_IF_ERROR(check_before_opening(bytes, AudioFormat::kMp3));
  const OpenSound sound(bytes, size_bytes);
  OVERLORD_RETURN_IF_ERROR(sound.opened(AudioFormat::kMp3));
  AudioHeader header;
  header.format = AudioFormat::kMp3;
  header.coding = AudioCoding::kMp3;
  header.channels = sound.info().channels;
  header.sample_rate = sound.info().samplerate;
  header.frames = sound.info().frames;
  return header;
}

Status decode_audio(std::string_view bytes, const AudioHeader& header, const AudioLimits& limits,
                    bool mono, AudioDecodeScratch& scratch, Sound* out) {
  constexpr int64_t kBlock = 16384;  // samples of all channels: stays in the inner caches
  OVERLORD_RETURN_IF_ERROR(check_limits(header, bytes.size(), limits));
  OVERLORD_RETURN_IF_ERROR(check_before_opening(bytes, header.format));
  OpenSound sound(bytes);
  OVERLORD_RETURN_IF_ERROR(check_opened(sound, header));
  out->shape(mono ? 1 : header.channels, header.frames);
  out->sample_rate = header.sample_rate;
  const int64_t block = std::max<int64_t>(kBlock / header.channels, 1);
  const auto wanted = static_cast<size_t>(block * header.channels);
  if (scratch.interleaved.size() < wanted) scratch.interleaved.resize(wanted);
  float* const samples = scratch.interleaved.data();
  const bool may_be_no_number = header.coding == AudioCoding::kFloat || !header.exact();
  int64_t done = 0;
  while (done < header.frames) {
    const int64_t got = sound.read(samples, std::min(block, header.frames - done));
    if (got <= 0) break;
    if (may_be_no_number) {
      OVERLORD_RETURN_IF_ERROR(
          check_numbers(samples, got * header.channels, header.channels, done));
    }
    place(samples, got, header.channels, mono, done, out);
    done += got;
  }
  if (done == header.frames) return {};
  return bad_data(
      enum_name(header.format) + " is cut or damaged: " + std::to_string(header.frames) +
      " samples per channel are promised, " + std::to_string(done) + " could be decoded");
}

std::string audio_library_version() {
  const std::string text = sf_version_string();  // "libsndfile-1.2.0"
  const size_t dash = text.rfind('-');
  return dash == std::string::npos ? text : text.substr(dash + 1);
}

Digest audio_fingerprint() {
  Digest digest = digest_of(kSoundRules);
  AudioDecodeScratch scratch;
  Sound sound;
  for (const std::string_view kept : kept_sounds()) {
    const Result<AudioHeader> header = probe_audio(kept);
    if (!header.ok() || !decode_audio(kept, *header, {}, false, scratch, &sound).ok()) return {};
    digest = chain(digest, digest_of(sound.samples.data(),
                                     static_cast<size_t>(sound.frames * sound.channels) * 4));
  }
  return digest;
}

#else

Result<AudioHeader> probe_mp3(std::string_view, uint64_t) {
  return codec_absent("MP3", "libsndfile1-dev");
}

Status decode_audio(std::string_view, const AudioHeader& header, const AudioLimits&, bool,
                    AudioDecodeScratch&, Sound*) {
  return codec_absent(enum_name(header.format), "libsndfile1-dev");
}

std::string audio_library_version() { return ""; }

Digest audio_fingerprint() { return {}; }

#endif

}  // namespace overlord::media
