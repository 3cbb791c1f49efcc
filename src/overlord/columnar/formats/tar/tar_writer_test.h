// Test support: tar files written from the format's description alone, well-formed or not.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace overlord::columnar {

class TarWriter {
 public:
  // A header block and its body; `size` tells what the header says, where that is not the truth.
  void add(const std::string& name, std::string_view body, char type = '0') {
    std::string header(512, '\0');
    header.replace(0, std::min<size_t>(name.size(), 100), name.substr(0, 100));
    put(&header, 124, "%011llo", body.size());
    header[156] = type;
    header.replace(257, 8, std::string("ustar\00000", 8));
    header.replace(345, prefix.size(), prefix);
    if (wide_size) {
      header[124] = static_cast<char>(0x80);
      for (size_t i = 0; i < 11; ++i) {
        const size_t shift = 8 * (10 - i);
        header[125 + i] = shift < 64 ? static_cast<char>(body.size() >> shift) : '\0';
      }
    }
    seal(&header);
    bytes += header;
    bytes += body;
    bytes.resize((bytes.size() + 511) / 512 * 512, '\0');
  }
  void add_gnu_long(const std::string& name, std::string_view body) {
    add("././@LongLink", name + std::string(1, '\0'), 'L');
    add(name, body);
  }
  void add_pax(const std::string& records, const std::string& name, std::string_view body,
               char type = 'x') {
    add("PaxHeaders/x", records, type);
    add(name, body);
  }
  static std::string record(const std::string& key, const std::string& value) {
    const std::string rest = " " + key + "=" + value + "\n";
    size_t length = rest.size() + 1;
    while (std::to_string(length).size() + rest.size() != length) ++length;
    return std::to_string(length) + rest;
  }
  static void seal(std::string* header) {
    header->replace(148, 8, 8, ' ');
    unsigned sum = 0;
    for (const char c : *header) sum += static_cast<unsigned char>(c);
    put(header, 148, "%06llo", sum);
    (*header)[155] = ' ';
  }
  std::string finished() const { return bytes + std::string(1024, '\0'); }

  std::string bytes;
  std::string prefix;
  bool wide_size = false;

 private:
  static void put(std::string* header, size_t at, const char* form, unsigned long long value) {
    char text[32];
    const int size = std::snprintf(text, sizeof text, form, value);
    header->replace(at, static_cast<size_t>(size) + 1,
                    std::string(text, static_cast<size_t>(size) + 1));
  }
};

}  // namespace overlord::columnar
