// The headers of a JPEG file of the usual kind: sequential Huffman coding, 8 bits, grey or YCbCr,
// one scan of all components. Strict on purpose: whatever is unusual, doubtful or wrong is answered
// with "not usual", and libjpeg then says what it is.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace overlord::media {

struct BaselineComponent {
  uint32_t id = 0;
  int32_t across = 1;  // sampling factors, 1 or 2; chroma has 1
  int32_t down = 1;
  uint32_t quantisation = 0;  // which table
  uint32_t dc = 0;
  uint32_t ac = 0;
};

struct BaselineHeader {
  int32_t width = 0;
  int32_t height = 0;
  int32_t count = 0;  // components: 1 or 3
  std::array<BaselineComponent, 3> components;
  std::array<std::string_view, 4> quantisation;  // 64 bytes in zigzag order, or empty
  std::array<std::string_view, 4> dc;            // as is_huffman_table() takes them, or empty
  std::array<std::string_view, 4> ac;
  int32_t restart_every = 0;  // MCUs; 0: never
  size_t scan_at = 0;         // where the entropy-coded data starts
};

std::optional<BaselineHeader> read_baseline_header(std::string_view bytes);

}  // namespace overlord::media
