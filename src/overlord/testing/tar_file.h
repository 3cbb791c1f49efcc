// Members of a tar, written from the description of the format alone.
#pragma once

#include <string>

namespace overlord::testing {

void put_member(std::string* tar, const std::string& name, const std::string& body);
void end_tar(std::string* tar);

}  // namespace overlord::testing
