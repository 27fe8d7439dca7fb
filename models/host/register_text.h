// The register table as text: for people, as the page docs/registers.md, and as the C header for drivers.
#pragma once

#include <string>

namespace heddle::host {

std::string registers_as_text();
std::string registers_as_markdown();
std::string registers_as_c();

}  // namespace heddle::host
