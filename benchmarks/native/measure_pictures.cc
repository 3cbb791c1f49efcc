#include "measure_pictures.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <span>
#include <thread>

#include "overlord/media/image/image_chain.h"
#include "overlord/media/image/image_decode.h"
#include "overlord/media/image/image_header.h"
#include "overlord/media/image/resize.h"

namespace overlord::bench {
namespace {

using media::ChainScratch;
using media::DecodeOptions;
using media::DecodeScratch;
using media::Image;
using media::ImageChain;
using media::ImageHeader;
using media::PreparedImageChain;
using media::ResizeAxis;
using media::ResizeScratch;

using SteadyTime = std::chrono::steady_clock;

class PlainLoop {
 public:
  explicit PlainLoop(int32_t side) : side_(side) { options_.jpeg = media::JpegMode::kScaled; }

  Status operator()(std::string_view file, std::span<uint8_t> out) {
    OVERLORD_TRY(const ImageHeader header, media::probe_image(file));
    const int32_t divisor = media::jpeg_divisor({header.width, header.height}, {side_, side_});
    OVERLORD_RETURN_IF_ERROR(
        media::decode_jpeg(file, header, options_, divisor, decode_, &decoded_));
    media::resize(decoded_.view(), ResizeAxis::whole(decoded_.width, side_),
                  ResizeAxis::whole(decoded_.height, side_), media::ResizeFilter::kBilinear,
                  resize_, out.data(), side_ * 3);
    return {};
  }

 private:
  int32_t side_;
  DecodeOptions options_;
  DecodeScratch decode_;
  ResizeScratch resize_;
  Image decoded_;
};

class ChainLoop {
 public:
  explicit ChainLoop(const PreparedImageChain& chain) : chain_(chain) {}

  Status operator()(std::string_view file, std::span<uint8_t> out) {
    OVERLORD_TRY(const ImageHeader header, media::probe_image(file));
    return chain_.run(file, header, 0, scratch_, out);
  }

 private:
  const PreparedImageChain& chain_;
  ChainScratch scratch_;
};

// What the threads share.
struct Round {
  Round(const std::vector<std::string>& all, size_t size, SteadyTime::time_point end)
      : files(all), picture_bytes(size), until(end) {}

  const std::vector<std::string>& files;
  const size_t picture_bytes;
  const SteadyTime::time_point until;
  std::atomic<uint64_t> next = 0;
  std::atomic<uint64_t> checksum = 0;
  std::mutex mutex;
  Status failed;
};

template <typename Loop>
void go_round(Round& round, Loop loop) {
  std::vector<uint8_t> out(round.picture_bytes);
  while (SteadyTime::now() < round.until) {
    const std::string& file = round.files[round.next++ % round.files.size()];
    const Status status = loop(file, out);
    if (!status.ok()) {
      const std::scoped_lock lock(round.mutex);
      round.failed = status;
      return;
    }
    round.checksum += out[out.size() / 2];
  }
}

}  // namespace

Result<PictureFigures> measure_pictures(const std::vector<std::string>& files, int32_t side,
                                        PictureLoop loop, uint32_t threads, double seconds) {
  if (files.empty() || side < 1 || threads < 1) {
    return invalid_argument("files, a side and threads are needed");
  }
  const std::string sides = " width=" + std::to_string(side) + " height=" + std::to_string(side);
  OVERLORD_TRY(ImageChain parsed,
               media::parse_chain("decode jpeg=scaled; resize" + sides + " filter=bilinear"));
  OVERLORD_TRY(const PreparedImageChain chain, PreparedImageChain::prepare(std::move(parsed)));
  const SteadyTime::time_point begin = SteadyTime::now();
  const auto wanted =
      std::chrono::duration_cast<SteadyTime::duration>(std::chrono::duration<double>(seconds));
  const auto pixels = static_cast<size_t>(side) * static_cast<size_t>(side);
  Round round(files, pixels * 3, begin + wanted);
  std::vector<std::jthread> running;
  for (uint32_t i = 0; i < threads; ++i) {
    running.emplace_back([&round, &chain, loop, side] {
      if (loop == PictureLoop::kPlain) {
        go_round(round, PlainLoop(side));
      } else {
        go_round(round, ChainLoop(chain));
      }
    });
  }
  running.clear();
  if (!round.failed.ok()) return round.failed;
  const std::chrono::duration<double> taken = SteadyTime::now() - begin;
  return PictureFigures{round.next, taken.count(), round.checksum};
}

}  // namespace overlord::bench
