// FLAC: the STREAMINFO block, which comes first.
#include "overlord/media/audio/audio_header.h"
#include "overlord/media/byte_view.h"

namespace overlord::media {

Result<AudioHeader> probe_flac(std::string_view bytes) {
  constexpr size_t kInfo = 8;  // after the signature and the block's own header
  constexpr size_t kInfoBytes = 34;
  if (!holds(bytes, kInfo, kInfoBytes)) {
    return bad_data("flac is cut: " + std::to_string(bytes.size()) +
                    " bytes do not hold its first block");
  }
  if ((byte_at(bytes, 4) & 0x7F) != 0 || (big_u32(bytes, 4) & 0xFFFFFF) != kInfoBytes) {
    return bad_data("flac is damaged: its first block is not STREAMINFO of 34 bytes");
  }
  // 20 bits of rate, 3 of channels - 1, 5 of bits - 1, 36 of length.
  const uint32_t packed = big_u32(bytes, kInfo + 10);
  AudioHeader header;
  header.format = AudioFormat::kFlac;
  header.coding = AudioCoding::kFlac;
  header.sample_rate = static_cast<int32_t>(packed >> 12);
  header.channels = static_cast<int32_t>((packed >> 9 & 7) + 1);
  header.bit_depth = static_cast<int32_t>((packed >> 4 & 31) + 1);
  header.frames = static_cast<int64_t>(packed & 15) << 32 | big_u32(bytes, kInfo + 14);
  if (header.frames == 0) {
    return bad_data(
        "flac does not say how long it is (0 samples: written to a pipe, or empty); encode it "
        "again into a file");
  }
  return header;
}

}  // namespace overlord::media
