// gzip, also of several members: streaming with restart points, and entering at one.
// The method is zlib's examples/zran.c: at the border of two deflate blocks the 32 KiB of text
// before it and the bits left in a byte are all the state there is.
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "overlord/columnar/streams/text_stream.h"

namespace overlord::columnar {
namespace {

constexpr int kGzipWrapper = 15 + 16;
constexpr int kRawDeflate = -15;
constexpr size_t kWindowBytes = 32 << 10;
constexpr size_t kTrailerBytes = 8;
// Text between two candidate points; which of them are kept is the indexer's choice.
constexpr uint64_t kPointSpacing = 128 << 10;

// z_stream with its end.
class Inflater {
 public:
  explicit Inflater(int window_bits) : ok_(inflateInit2(&stream_, window_bits) == Z_OK) {}
  ~Inflater() {
    if (ok_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  bool ok() const { return ok_; }
  z_stream* get() { return &stream_; }
  void feed(std::string_view input) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
    stream_.avail_in = static_cast<uInt>(input.size());
  }
  const char* what() const { return stream_.msg != nullptr ? stream_.msg : "broken deflate data"; }

 private:
  z_stream stream_{};
  const bool ok_;
};

class GzipStream final : public TextStream {
 public:
  explicit GzipStream(const ShardJob& job)
      : TextStream(job), inflater_(kGzipWrapper), piece_(kPieceBytes) {}

  Result<std::string_view> next() override {
    if (!inflater_.ok()) return Status(Code::kResource, "no memory for zlib");
    text_offset_ += produced_;
    produced_ = 0;
    while (produced_ < piece_.size()) {
      if (inflater_.get()->avail_in == 0) {
        OVERLORD_TRY(const bool more, refill());
        if (!more) break;
      }
      if (!in_member_) {
        if (produced_ > 0) break;  // a member begins with a piece of its own
        OVERLORD_TRY(const bool begun, begin_member());
        if (!begun) continue;
      }
      if (at_border_ && text_offset_ + produced_ - restart_->text_offset >= kPointSpacing) {
        if (produced_ > 0) break;  // points lie between pieces
        take_point();
      }
      at_border_ = false;
      OVERLORD_RETURN_IF_ERROR(inflate_some());
    }
    compressed_end_ = position();
    OVERLORD_RETURN_IF_ERROR(check_expansion(text_offset_ + produced_, compressed_end_));
    return std::string_view(piece_.data(), produced_);
  }

 private:
  uint64_t position() { return input_end() - inflater_.get()->avail_in; }

  // False at the end of the file, which must not lie inside a member.
  Result<bool> refill() {
    OVERLORD_TRY(const std::string_view input, next_input());
    if (!input.empty()) {
      inflater_.feed(input);
      return true;
    }
    if (in_member_)
      return job_.error("gzip file is cut short at offset " + std::to_string(position()));
    if (members_ == 0) return job_.error("is empty, not even a gzip header");
    return false;
  }

  // Steps over zero padding behind the last member, as gzip does. False: all input was padding.
  Result<bool> begin_member() {
    z_stream* stream = inflater_.get();
    if (members_ > 0) {
      while (stream->avail_in > 0 && *stream->next_in == 0) {
        ++stream->next_in;
        --stream->avail_in;
        padded_ = true;
      }
      if (stream->avail_in == 0) return false;
      if (padded_ || *stream->next_in != 0x1f) {
        return job_.error("has garbage behind its gzip data at offset " +
                          std::to_string(position()));
      }
    }
    inflateReset2(stream, kGzipWrapper);
    auto point = std::make_shared<RestartPoint>();
    point->compressed_offset = position();
    point->text_offset = text_offset_;
    restart_ = std::move(point);
    in_member_ = true;
    ++members_;
    return true;
  }

  void take_point() {
    auto point = std::make_shared<RestartPoint>();
    point->compressed_offset = position();
    point->text_offset = text_offset_;
    point->inside_member = true;
    point->bits = static_cast<uint8_t>(inflater_.get()->data_type & 7);
    point->window.resize(kWindowBytes);
    uInt size = 0;
    inflateGetDictionary(inflater_.get(), reinterpret_cast<Bytef*>(point->window.data()), &size);
    point->window.resize(size);
    restart_ = std::move(point);
  }

  Status inflate_some() {
    z_stream* stream = inflater_.get();
    stream->next_out = reinterpret_cast<Bytef*>(piece_.data() + produced_);
    stream->avail_out = static_cast<uInt>(piece_.size() - produced_);
    const int result = inflate(stream, Z_BLOCK);
    produced_ = piece_.size() - stream->avail_out;
    if (result == Z_STREAM_END) {
      in_member_ = false;
      return {};
    }
    if (result != Z_OK && result != Z_BUF_ERROR) {
      return job_.error("gzip data is broken near offset " + std::to_string(position()) + ": " +
                        inflater_.what());
    }
    // At a border of blocks, and not behind the last block of the member.
    at_border_ = (stream->data_type & 128) != 0 && (stream->data_type & 64) == 0;
    return {};
  }

  Inflater inflater_;
  std::vector<char> piece_;
  size_t produced_ = 0;
  bool in_member_ = false;
  bool at_border_ = false;
  bool padded_ = false;
  uint64_t members_ = 0;
};

Status cut_short() { return bad_data("compressed data ends before the block does"); }

// Prepares `inflater` to go on at `restart`; steps over the byte that holds its first bits.
Status enter(const RestartPoint& restart, Inflater* inflater, std::string_view* compressed) {
  if (!inflater->ok()) return {Code::kResource, "no memory for zlib"};
  if (!restart.inside_member) return {};
  if (restart.bits > 0) {
    if (compressed->empty()) return cut_short();
    const int byte = static_cast<unsigned char>(compressed->front());
    if (inflatePrime(inflater->get(), restart.bits, byte >> (8 - restart.bits)) != Z_OK) {
      return bad_data("broken restart point");
    }
    compressed->remove_prefix(1);
  }
  const auto* window = reinterpret_cast<const Bytef*>(restart.window.data());
  if (inflateSetDictionary(inflater->get(), window, static_cast<uInt>(restart.window.size())) !=
      Z_OK) {
    return bad_data("broken restart point");
  }
  return {};
}

// From the end of one member to the next one's header.
Status next_member(bool raw, Inflater* inflater) {
  z_stream* stream = inflater->get();
  if (raw) {  // the wrapper's trailer is ours to step over
    if (stream->avail_in < kTrailerBytes) return cut_short();
    stream->next_in += kTrailerBytes;
    stream->avail_in -= kTrailerBytes;
  }
  return inflateReset2(stream, kGzipWrapper) == Z_OK ? Status() : bad_data("zlib reset failed");
}

}  // namespace

std::unique_ptr<TextStream> open_gzip_stream(const ShardJob& job) {
  return std::make_unique<GzipStream>(job);
}

Status expand_gzip(const RestartPoint& restart, std::string_view compressed, uint64_t skip,
                   char* out, size_t size_bytes) {
  Inflater inflater(restart.inside_member ? kRawDeflate : kGzipWrapper);
  OVERLORD_RETURN_IF_ERROR(enter(restart, &inflater, &compressed));
  bool raw = restart.inside_member;
  std::vector<char> dropped(skip > 0 ? kPieceBytes : 0);
  z_stream* stream = inflater.get();
  inflater.feed({});
  size_t done = 0;
  while (done < size_bytes) {
    if (stream->avail_in == 0) {
      // avail_in is 32 bits wide; a range need not be.
      const size_t some = std::min<size_t>(compressed.size(), 1 << 30);
      inflater.feed(compressed.substr(0, some));
      compressed.remove_prefix(some);
    }
    char* target = skip > 0 ? dropped.data() : out + done;
    const size_t room = skip > 0 ? std::min<uint64_t>(skip, dropped.size())
                                 : std::min<size_t>(size_bytes - done, 1 << 30);
    stream->next_out = reinterpret_cast<Bytef*>(target);
    stream->avail_out = static_cast<uInt>(room);
    const int result = inflate(stream, Z_NO_FLUSH);
    const size_t made = room - stream->avail_out;
    skip > 0 ? skip -= made : done += made;
    if (result == Z_STREAM_END) {
      if (done == size_bytes) break;
      OVERLORD_RETURN_IF_ERROR(next_member(raw, &inflater));
      raw = false;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      return bad_data(std::string("gzip data is broken: ") + inflater.what());
    }
    if (made == 0 && stream->avail_in == 0 && compressed.empty()) return cut_short();
  }
  return {};
}

Result<std::string> unpack_gzip(std::string_view packed, uint64_t most_bytes) {
  Inflater inflater(kGzipWrapper);
  if (!inflater.ok()) return Status(Code::kResource, "no memory for zlib");
  z_stream* stream = inflater.get();
  inflater.feed(packed.substr(0, std::min<size_t>(packed.size(), UINT32_MAX)));
  std::string out;
  std::vector<char> piece(std::min<uint64_t>(kPieceBytes, most_bytes + 1));
  while (true) {
    stream->next_out = reinterpret_cast<Bytef*>(piece.data());
    stream->avail_out = static_cast<uInt>(piece.size());
    const int result = inflate(stream, Z_NO_FLUSH);
    const size_t made = piece.size() - stream->avail_out;
    out.append(piece.data(), made);
    if (out.size() > most_bytes) {
      return bad_data("expands to more than " + std::to_string(most_bytes) + " bytes");
    }
    if (result == Z_STREAM_END) {
      if (stream->avail_in == 0) return out;
      if (inflateReset2(stream, kGzipWrapper) != Z_OK) return bad_data("zlib reset failed");
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      return bad_data(std::string("gzip data is broken: ") + inflater.what());
    } else if (made == 0 && stream->avail_in == 0) {
      return bad_data("gzip data is cut short");
    }
  }
}

std::string pack_window(std::string_view window) {
  uLongf size = compressBound(static_cast<uLong>(window.size()));
  std::string packed(size, '\0');
  const int result = compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                               reinterpret_cast<const Bytef*>(window.data()),
                               static_cast<uLong>(window.size()), Z_DEFAULT_COMPRESSION);
  OVERLORD_CHECK(result == Z_OK, "deflating a window into enough room");
  packed.resize(size);
  return packed;
}

Result<std::string> unpack_window(std::string_view packed) {
  std::string window(kWindowBytes, '\0');
  uLongf size = window.size();
  if (uncompress(reinterpret_cast<Bytef*>(window.data()), &size,
                 reinterpret_cast<const Bytef*>(packed.data()),
                 static_cast<uLong>(packed.size())) != Z_OK) {
    return bad_data("index is damaged (restart window); run `overlord index`");
  }
  window.resize(size);
  return window;
}

}  // namespace overlord::columnar
