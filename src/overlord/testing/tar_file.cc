#include "overlord/testing/tar_file.h"

#include <cstdint>
#include <cstdio>

namespace overlord::testing {

void put_member(std::string* tar, const std::string& name, const std::string& body) {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  char size[12];
  std::snprintf(size, sizeof size, "%011llo", static_cast<unsigned long long>(body.size()));
  header.replace(124, 11, size);
  header[156] = '0';
  header.replace(257, 8, std::string("ustar\00000", 8));
  header.replace(148, 8, "        ");
  uint32_t sum = 0;
  for (const char byte : header) sum += static_cast<uint8_t>(byte);
  char check[8];
  std::snprintf(check, sizeof check, "%06o", sum);
  header.replace(148, 7, std::string(check, 7));
  *tar += header + body;
  tar->resize((tar->size() + 511) / 512 * 512, '\0');
}

void end_tar(std::string* tar) { tar->append(1024, '\0'); }

}  // namespace overlord::testing
