// Colour arithmetic on whole numbers, the same on every CPU.
#pragma once

#include <array>
#include <cstdint>

#include "overlord/media/image/image.h"

namespace overlord::media {

// One row of planes to RGB, by the JFIF equations in 16-bit fixed point (as libjpeg rounds them).
void ycc_row_to_rgb(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int32_t width,
                    uint8_t* rgb);
// One channel copied to three.
void grey_row_to_rgb(const uint8_t* grey, int32_t width, uint8_t* rgb);
// Inverted CMYK as Adobe stores it in JPEG (255 is no ink), to RGB.
void inverted_cmyk_row_to_rgb(const uint8_t* cmyk, int32_t width, uint8_t* rgb);
// (colour * alpha + background * (255 - alpha)) / 255, rounded.
void rgba_row_over(const uint8_t* rgba, int32_t width, const std::array<uint8_t, 3>& background,
                   uint8_t* rgb);
// The colours as they are, alpha left out.
void rgba_row_drop(const uint8_t* rgba, int32_t width, uint8_t* rgb);
// ITU-R 601 luma as Pillow's "L".
void rgb_row_to_grey(const uint8_t* rgb, int32_t width, uint8_t* grey);

}  // namespace overlord::media
