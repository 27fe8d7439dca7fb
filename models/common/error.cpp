#include "common/error.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace heddle {
namespace {

std::string compose(const SourcePos& where, std::string_view message, std::string_view remedy) {
  std::string text = where.text();
  if (!text.empty()) text += ": ";
  text += message;
  if (!remedy.empty()) text.append("\n  ").append(remedy);
  return text;
}

// Diagnostics only: which event loop runs on this thread. Nothing of the model's behaviour depends on it.
thread_local const CheckContext* current_context = nullptr;

std::string folded(std::string_view text) {
  std::string result = lower_case(text);
  std::replace(result.begin(), result.end(), '-', '_');
  return result;
}

// A name of a megabyte, from a broken file, must not cost a quadratic comparison.
constexpr std::size_t kMaxCompared = 128;

constexpr std::size_t kMaxListed = 12;

}  // namespace

std::string SourcePos::text() const {
  if (line <= 0) return file;
  if (column <= 0) return fmt::format("{}:{}", file, line);
  return fmt::format("{}:{}:{}", file, line, column);
}

InputError::InputError(const SourcePos& where, std::string_view message, std::string_view remedy)
    : std::runtime_error(compose(where, message, remedy)), where_(where), message_(message), remedy_(remedy) {}

InputError::InputError(std::string_view message, std::string_view remedy) : InputError(SourcePos{}, message, remedy) {}

const CheckContext* exchange_check_context(const CheckContext* context) noexcept {
  const CheckContext* previous = current_context;
  current_context = context;
  return previous;
}

void check_failed(const char* condition, const char* file, int line, std::string_view message) {
  const std::string context =
      current_context != nullptr ? current_context->describe() : std::string("outside simulation");
  throw CheckFailed(fmt::format("{}: {} [{}] at {}:{}", context, message, condition, file, line));
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::string s = folded(a.substr(0, kMaxCompared));
  const std::string t = folded(b.substr(0, kMaxCompared));
  // Three rows of the table suffice: a swap looks two rows back.
  std::vector<std::size_t> before(t.size() + 1);
  std::vector<std::size_t> last(t.size() + 1);
  std::vector<std::size_t> row(t.size() + 1);
  for (std::size_t j = 0; j <= t.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= s.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= t.size(); ++j) {
      const std::size_t change = last[j - 1] + (s[i - 1] == t[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, change});
      if (i > 1 && j > 1 && s[i - 1] == t[j - 2] && s[i - 2] == t[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  const std::size_t rest = (a.size() - s.size()) + (b.size() - t.size());
  return last[t.size()] + rest;
}

std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& candidates,
                                       std::size_t limit) {
  std::vector<std::pair<std::size_t, std::string>> close;
  for (const std::string& candidate : candidates) {
    // The beginning of a name ("h100" of "h100-sxm") is most likely that name.
    if (name.size() >= 3 && name.size() < candidate.size() &&
        folded(candidate.substr(0, name.size())) == folded(name)) {
      close.emplace_back(0, candidate);
      continue;
    }
    // A third of the letters may be wrong. A name that contains the other ("cycles" in "session_cycles") is also meant
    // often, but ranks behind every misspelling.
    const std::size_t longest = std::max(name.size(), candidate.size());
    const std::size_t distance = edit_distance(name, candidate);
    if (distance <= std::max<std::size_t>(1, longest / 3) && distance < longest) {
      close.emplace_back(distance, candidate);
    } else if (name.size() >= 3 && name.size() <= kMaxCompared && candidate.size() >= 3) {
      const std::string a = folded(name);
      const std::string b = folded(candidate);
      if (a.find(b) != std::string::npos || b.find(a) != std::string::npos)
        close.emplace_back(kMaxCompared + distance, candidate);
    }
  }
  std::stable_sort(close.begin(), close.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> result;
  for (auto& [distance, candidate] : close) {
    if (result.size() == limit) break;
    if (std::find(result.begin(), result.end(), candidate) == result.end()) result.push_back(std::move(candidate));
  }
  return result;
}

std::string nearest(std::string_view name, const std::vector<std::string>& candidates) {
  const std::vector<std::string> close = nearest_names(name, candidates, 1);
  return close.empty() ? std::string() : close.front();
}

std::string suggestion(std::string_view name, const std::vector<std::string>& candidates) {
  const std::vector<std::string> close = nearest_names(name, candidates);
  if (!close.empty()) return fmt::format("did you mean {}?", fmt::join(close, ", "));
  if (candidates.empty()) return {};
  const std::size_t listed = std::min(candidates.size(), kMaxListed);
  return fmt::format("known: {}{}",
                     fmt::join(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(listed), ", "),
                     listed < candidates.size() ? ", …" : "");
}

}  // namespace heddle
