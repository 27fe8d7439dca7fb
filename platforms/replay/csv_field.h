// Fields of comma-separated values (RFC 4180).
#pragma once

#include <string>

namespace heddle::replay {

// The text as a field: in quotes, doubled inside, where it would otherwise break the field or the line.
inline std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"') quoted += '"';
    quoted += letter;
  }
  return quoted + '"';
}

}  // namespace heddle::replay
