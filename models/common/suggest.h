// Names that a user may have meant. Every "unknown …" message of the program ends with one of them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

// Edit distance with neighbour swaps; letters of different case, and '-' and '_', count as equal.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidates that resemble `name`, best first, at most `limit`; equal ones keep their order. Empty if none is
// close.
std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& candidates,
                                       std::size_t limit = 3);

// The best of them, or "" if none is close.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

// A sentence for the remedy of an error: "did you mean cwd, cwq?", or, when nothing resembles the name, "known: a, b,
// c".
std::string suggestion(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace heddle
