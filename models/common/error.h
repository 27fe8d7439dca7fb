// Errors, in three kinds (see docs/conventions.md): bad input from a user, broken invariants of our own, and no
// progress.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

// A place in a file that a user can go to. Lines and columns count from 1; 0 means "not known".
struct SourcePos {
  std::string file;
  int line = 0;
  int column = 0;

  // "file:12:3", as much of it as is known.
  std::string text() const;
};

// Something a user gave us is wrong. The program ends with exit status 2 and prints what(): the place, what is wrong
// and what to do about it.
class InputError : public std::runtime_error {
 public:
  InputError(const SourcePos& where, std::string_view message, std::string_view remedy = {});
  explicit InputError(std::string_view message, std::string_view remedy = {});

  const SourcePos& where() const { return where_; }
  const std::string& message() const { return message_; }
  const std::string& remedy() const { return remedy_; }

 private:
  SourcePos where_;
  std::string message_;
  std::string remedy_;
};

// An invariant of the model does not hold: a bug in Heddle, never a user's mistake.
class CheckFailed : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// Who runs, and when, for the messages of failed checks. The event loop fills it in; cores know nothing of it.
struct CheckContext {
  virtual ~CheckContext() = default;
  virtual std::string describe() const = 0;
};

// Installs a context for the current thread; returns the one that was there, so that the caller can put it back.
const CheckContext* exchange_check_context(const CheckContext* context) noexcept;

[[noreturn]] void check_failed(const char* condition, const char* file, int line, std::string_view message);

}  // namespace heddle

// On in every build, so keep `condition` cheap. Throws CheckFailed with simulated time and module path.
#define HEDDLE_CHECK(condition, message)                                                 \
  do {                                                                                   \
    if (!(condition)) ::heddle::check_failed(#condition, __FILE__, __LINE__, (message)); \
  } while (false)

namespace heddle {

// The text with its ASCII letters in lower case.
std::string lower_case(std::string_view text);

// Edit distance with neighbour swaps; letters of different case, and '-' and '_', count as equal.
std::size_t edit_distance(std::string_view a, std::string_view b);

// Every "unknown …" message of the program ends with names that the user may have meant: the candidates that resemble
// `name`, best first, at most `limit`; equal ones keep their order. Empty if none is close.
std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& candidates,
                                       std::size_t limit = 3);

// The best of them, or "" if none is close.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

// A sentence for the remedy of an error: "did you mean cwd, cwq?", or, when nothing resembles the name, "known: a, b,
// c".
std::string suggestion(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace heddle
