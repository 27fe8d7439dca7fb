#include "common/error.h"

#include <fmt/format.h>

namespace heddle {
namespace {

std::string compose(const SourcePos& where, std::string_view message, std::string_view remedy) {
  std::string text = where.text();
  if (!text.empty()) text += ": ";
  text += message;
  if (!remedy.empty()) fmt::format_to(std::back_inserter(text), "\n  {}", remedy);
  return text;
}

// Diagnostics only: which event loop runs on this thread. Nothing of the model's behaviour depends on it.
thread_local const CheckContext* current_context = nullptr;

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

}  // namespace heddle
