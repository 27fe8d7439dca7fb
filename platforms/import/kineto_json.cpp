#include "import/kineto_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/error.h"

namespace heddle::import {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kExpected =
    "Expected a Kineto trace (PyTorch profiler, export_chrome_trace) or a Heddle scenario.";
constexpr std::string_view kTruncated =
    "The file ends early: copy it again, or wait until the profiler has written it to its end.";
constexpr std::string_view kNotJson = "Check that the file was not edited or damaged; record or copy it again.";

// Keys in lower case (INP-01).
const std::unordered_map<std::string, JsonValue KinetoEvent::*>& event_fields() {
  static const std::unordered_map<std::string, JsonValue KinetoEvent::*> kFields = {
      {"ph", &KinetoEvent::ph},   {"cat", &KinetoEvent::cat}, {"name", &KinetoEvent::name}, {"pid", &KinetoEvent::pid},
      {"tid", &KinetoEvent::tid}, {"ts", &KinetoEvent::ts},   {"dur", &KinetoEvent::dur}};
  return kFields;
}

const std::unordered_map<std::string, JsonValue KinetoEvent::*>& arg_fields() {
  static const std::unordered_map<std::string, JsonValue KinetoEvent::*> kFields = {
      {"device", &KinetoEvent::device},
      {"stream", &KinetoEvent::stream},
      {"correlation", &KinetoEvent::correlation},
      {"external id", &KinetoEvent::external_id},
      {"bytes", &KinetoEvent::bytes},
      {"registers per thread", &KinetoEvent::registers},
      {"shared memory", &KinetoEvent::shared},
      {"est. achieved occupancy %", &KinetoEvent::occupancy},
      {"cuda_sync_kind", &KinetoEvent::sync_kind},
      {"wait_on_stream", &KinetoEvent::wait_on_stream},
      {"wait_on_cuda_event_record_corr_id", &KinetoEvent::wait_on_record},
      {"collective name", &KinetoEvent::collective},
      {"in msg nelems", &KinetoEvent::elements_in},
      {"out msg nelems", &KinetoEvent::elements_out},
      {"dtype", &KinetoEvent::element_type},
      {"group size", &KinetoEvent::group_size},
      {"process group name", &KinetoEvent::group_name},
      {"process group ranks", &KinetoEvent::group_ranks},
      {"seq", &KinetoEvent::sequence}};
  return kFields;
}

const std::unordered_map<std::string, JsonValue KinetoDevice::*>& device_fields() {
  static const std::unordered_map<std::string, JsonValue KinetoDevice::*> kFields = {
      {"id", &KinetoDevice::id},
      {"name", &KinetoDevice::name},
      {"numsms", &KinetoDevice::sms},
      {"warpsize", &KinetoDevice::warp_size},
      {"maxthreadspermultiprocessor", &KinetoDevice::threads_per_sm},
      {"maxthreadsperblock", &KinetoDevice::threads_per_cta},
      {"regspermultiprocessor", &KinetoDevice::registers_per_sm},
      {"regsperblock", &KinetoDevice::registers_per_cta},
      {"sharedmempermultiprocessor", &KinetoDevice::shared_per_sm},
      {"maxsharedmemorypermultiprocessor", &KinetoDevice::max_shared_per_sm},
      {"sharedmemperblock", &KinetoDevice::shared_per_cta},
      {"sharedmemperblockoptin", &KinetoDevice::shared_per_cta_optin}};
  return kFields;
}

const std::unordered_map<std::string, KinetoArguments::List>& argument_lists() {
  static const std::unordered_map<std::string, KinetoArguments::List> kLists = {
      {"input dims", KinetoArguments::dims},
      {"input type", KinetoArguments::types},
      {"input strides", KinetoArguments::strides},
      {"concrete inputs", KinetoArguments::values}};
  return kLists;
}

// A list of the file as text again, without spaces.
class RawList {
 public:
  // The next value is such a list, if it is one at all. Null: it is not.
  void expect(std::string* into) {
    text_ = into;
    depth_ = 0;
  }
  bool expected() const { return text_ != nullptr; }
  bool inside() const { return depth_ > 0; }

  void open() {
    if (depth_++ == 0) {
      text_->clear();
    } else {
      separate();
    }
    *text_ += '[';
  }
  void close() {
    *text_ += ']';
    if (--depth_ == 0) text_ = nullptr;
  }
  void value(std::string_view text) {
    separate();
    *text_ += text;
  }
  void quoted(const std::string& text) {
    const auto plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
    if (std::all_of(text.begin(), text.end(), plain)) {
      value("\"");
      (*text_ += text) += '"';
    } else {
      value(Json(text).dump(-1, ' ', true, Json::error_handler_t::replace));
    }
  }

 private:
  void separate() {
    if (text_->back() != '[') *text_ += ',';
  }

  std::string* text_ = nullptr;
  std::size_t depth_ = 0;
};

// Where the parser is. What is not needed is counted by depth only and leaves no trace in memory.
enum class Place { file, root, devices, device, events, event, args, dims };
enum class Section { none, events, devices, args, grid, block };

class Handler final : public nlohmann::json_sax<Json> {
 public:
  Handler(ByteSource& source, KinetoSink& sink) : source_(source), sink_(sink) {}

  bool has_events() const { return has_events_; }

  bool null() override { return scalar(JsonValue::Kind::null, 0); }
  bool boolean(bool /*value*/) override { return scalar(JsonValue::Kind::boolean, 0); }
  bool number_integer(Json::number_integer_t value) override { return scalar(JsonValue::Kind::integer, value); }
  bool number_unsigned(Json::number_unsigned_t value) override {
    if (value <= static_cast<std::uint64_t>(INT64_MAX)) {
      return scalar(JsonValue::Kind::integer, static_cast<std::int64_t>(value));
    }
    const std::string text = fmt::format("{}", value);
    return scalar(JsonValue::Kind::decimal, 0, &text);
  }
  bool number_float(Json::number_float_t /*value*/, const std::string& text) override {
    return scalar(JsonValue::Kind::decimal, 0, &text);
  }
  bool string(std::string& text) override { return scalar(JsonValue::Kind::text, 0, &text); }
  bool binary(Json::binary_t& /*value*/) override { return scalar(JsonValue::Kind::container, 0); }

  bool key(std::string& text) override {
    if (skipped_ > 0) return true;
    target_ = nullptr;
    raw_.expect(nullptr);
    section_ = Section::none;
    text = lower_case(text);  // INP-01
    switch (place_.back()) {
      case Place::root:
        if (text == "traceevents") section_ = Section::events;
        if (text == "deviceproperties") section_ = Section::devices;
        break;
      case Place::event:
        if (text == "args") section_ = Section::args;
        target(event_fields(), event_, text);
        break;
      case Place::args:
        if (text == "grid") section_ = Section::grid;
        if (text == "block") section_ = Section::block;
        target(arg_fields(), event_, text);
        expect_list(text);
        break;
      case Place::device:
        target(device_fields(), device_, text);
        break;
      default:
        break;
    }
    return true;
  }

  bool start_object(std::size_t /*size*/) override {
    if (skipped_ > 0) return skip();
    if (raw_.inside()) {
      raw_.value("null");
      return skip();
    }
    switch (place_.back()) {
      case Place::file:
        return enter(Place::root);
      case Place::events:
        event_ = KinetoEvent{};
        event_.index = events_++;
        event_.position = source_.position();
        return enter(Place::event);
      case Place::devices:
        device_ = KinetoDevice{};
        device_.index = devices_++;
        device_.position = source_.position();
        return enter(Place::device);
      case Place::event:
        if (section_ == Section::args) return enter(Place::args);
        break;
      default:
        break;
    }
    return container();
  }
  bool end_object() override {
    if (skipped_ > 0) return unskip();
    const Place left = leave();
    if (left == Place::event) sink_.on_event(event_);
    if (left == Place::device) sink_.on_device(device_);
    return true;
  }

  bool start_array(std::size_t /*size*/) override {
    if (skipped_ > 0) return skip();
    if (raw_.expected()) {
      raw_.open();
      return true;
    }
    switch (section_) {
      case Section::events:
        has_events_ = true;
        return enter(Place::events);
      case Section::devices:
        return enter(Place::devices);
      case Section::grid:
        return enter_dims(event_.grid);
      case Section::block:
        return enter_dims(event_.block);
      default:
        break;
    }
    return container();
  }
  bool end_array() override {
    if (skipped_ > 0) return unskip();
    if (raw_.inside()) {
      raw_.close();
      return true;
    }
    leave();
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/, const Json::exception& error) override {
    // The parser counts the end of the file as a character: what it has counted beyond the bytes is that.
    const bool ended = position > source_.position();
    std::string_view text = error.what();
    const std::size_t tag = text.find("] ");
    if (tag != std::string_view::npos) text.remove_prefix(tag + 2);
    constexpr std::string_view kPlace = "parse error at ";
    if (text.substr(0, kPlace.size()) == kPlace) text.remove_prefix(kPlace.size());
    throw InputError({source_.name()},
                     fmt::format("{}: not valid JSON: {}", source_.position_text(position), printable(text, 200)),
                     ended ? kTruncated : kNotJson);
  }

 private:
  template <typename Fields, typename Record>
  void target(const Fields& fields, Record& record, const std::string& text) {
    const auto found = fields.find(text);
    if (found != fields.end()) target_ = &(record.*(found->second));
  }

  void expect_list(const std::string& key) {
    if (key == "process group ranks") raw_.expect(&event_.group_ranks.text);
    if (!event_.is_operator()) return;
    const auto found = argument_lists().find(key);
    if (found != argument_lists().end()) raw_.expect(&event_.arguments.lists[found->second]);
  }

  void raw_scalar(JsonValue::Kind kind, std::int64_t integer, const std::string* text) {
    if (kind == JsonValue::Kind::integer) {
      raw_.value(fmt::format_int(integer).c_str());
    } else if (kind == JsonValue::Kind::text) {
      raw_.quoted(*text);
    } else if (kind == JsonValue::Kind::decimal) {
      raw_.value(*text);
    } else {
      raw_.value("null");
    }
  }

  bool skip() {
    ++skipped_;
    return true;
  }
  bool unskip() {
    --skipped_;
    return true;
  }
  bool enter(Place place) {
    place_.push_back(place);
    section_ = Section::none;
    target_ = nullptr;
    return true;
  }
  // What the last key inside promised must not be taken for a promise of what follows outside.
  Place leave() {
    const Place left = place_.back();
    place_.pop_back();
    section_ = Section::none;
    target_ = nullptr;
    return left;
  }
  bool enter_dims(JsonDims& dims) {
    dims = JsonDims{};
    dims.present = true;
    dims_ = &dims;
    return enter(Place::dims);
  }

  // An object or array that is not read: an error in some places, a wrong type in some fields, skipped elsewhere.
  bool container() {
    misplaced("an object or array");
    if (target_ != nullptr) *target_ = JsonValue{JsonValue::Kind::container, 0, {}};
    mark_dims();
    return skip();
  }

  bool scalar(JsonValue::Kind kind, std::int64_t integer, const std::string* text = nullptr) {
    if (skipped_ > 0) return true;
    if (raw_.inside()) {
      raw_scalar(kind, integer, text);
      return true;
    }
    if (place_.back() == Place::dims) {
      if (kind != JsonValue::Kind::integer) dims_->numeric = false;
      if (dims_->count < dims_->extents.size()) dims_->extents[dims_->count] = integer;
      ++dims_->count;
      return true;
    }
    misplaced("a single value");
    if (target_ != nullptr) {
      target_->kind = kind;
      target_->integer = integer;
      if (text != nullptr) target_->text = *text;
    }
    if (kind != JsonValue::Kind::null) mark_dims();
    return true;
  }

  // A grid or block that is not an array, or an element that is not a number.
  void mark_dims() {
    if (place_.back() == Place::dims) {
      dims_->numeric = false;
      ++dims_->count;
    } else if (section_ == Section::grid || section_ == Section::block) {
      JsonDims& dims = section_ == Section::grid ? event_.grid : event_.block;
      dims = JsonDims{};
      dims.present = true;
      dims.numeric = false;
    }
  }

  void misplaced(std::string_view what) {
    std::string message;
    switch (place_.back()) {
      case Place::file:
        message = "is JSON but not an object at its outermost level";
        break;
      case Place::root:
        if (section_ == Section::events) message = fmt::format("\"traceEvents\" is {}, not an array", what);
        if (section_ == Section::devices) message = fmt::format("\"deviceProperties\" is {}, not an array", what);
        break;
      case Place::events:
        message = fmt::format("event {} of traceEvents is {}, not an object of its own", events_, what);
        break;
      case Place::devices:
        message = fmt::format("entry {} of deviceProperties is {}, not an object of its own", devices_, what);
        break;
      default:
        break;
    }
    if (message.empty()) return;
    throw InputError({source_.name()}, fmt::format("{}: {}", source_.position_text(source_.position()), message),
                     kExpected);
  }

  ByteSource& source_;
  KinetoSink& sink_;
  std::vector<Place> place_{Place::file};
  std::size_t skipped_ = 0;          // depth inside what is skipped
  Section section_ = Section::none;  // what the last key promises
  JsonValue* target_ = nullptr;      // where the value of the last key goes
  JsonDims* dims_ = nullptr;
  RawList raw_;
  KinetoEvent event_;
  KinetoDevice device_;
  std::size_t events_ = 0;
  std::size_t devices_ = 0;
  bool has_events_ = false;
};

constexpr std::int64_t kMaxNanoseconds = 4'000'000'000'000'000'000;  // sums and differences of two of them fit 64 bits
constexpr int kMaxExponent = 40;                                     // far beyond the range either way

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

// value * 10^power of the decimal number `text`, rounded half up (away from zero).
std::optional<std::int64_t> parse_scaled(std::string_view text, int power) {
  std::size_t at = 0;
  const bool negative = at < text.size() && text[at] == '-';
  if (negative) ++at;
  std::string digits;
  int point = power;  // the decimal point lies this many digits after the last one in `digits`
  bool fraction = false;
  for (; at < text.size(); ++at) {
    // The JSON parser writes numbers with the decimal point of the C locale in force, which may be a comma.
    if (!fraction && (text[at] == '.' || text[at] == ',')) {
      fraction = true;
    } else if (is_digit(text[at])) {
      digits += text[at];
      if (fraction) --point;
    } else {
      break;
    }
  }
  if (digits.empty()) return std::nullopt;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && text[at] == '+') ++at;
    const auto exponent = parse_integer(text.substr(at));
    if (!exponent || *exponent > kMaxExponent || *exponent < -kMaxExponent) return std::nullopt;
    point += static_cast<int>(*exponent);
    at = text.size();
  }
  if (at != text.size()) return std::nullopt;

  std::int64_t value = 0;
  const auto append = [&value](int digit) {
    if (value > (kMaxNanoseconds - digit) / 10) return false;
    value = value * 10 + digit;
    return true;
  };
  const auto length = static_cast<std::int64_t>(digits.size());
  const std::int64_t kept = length + point;  // digits before the point
  for (std::int64_t i = 0; i < kept; ++i) {
    if (i >= length && value == 0) break;
    if (!append(i < length ? digits[static_cast<std::size_t>(i)] - '0' : 0)) return std::nullopt;
  }
  if (kept >= 0 && kept < length && digits[static_cast<std::size_t>(kept)] >= '5') ++value;
  return negative ? -value : value;
}

}  // namespace

// "Operator" in files of 2021.
bool KinetoEvent::is_operator() const {
  if (cat.kind != JsonValue::Kind::text) return false;
  const std::string category = lower_case(cat.text);
  return category == "cpu_op" || category == "operator";
}

void read_kineto_json(ByteSource& source, KinetoSink& sink) {
  if (source.sgetc() == std::streambuf::traits_type::eof()) {
    throw InputError({source.name()}, fmt::format("{}: the file is empty", source.position_text(0)), kExpected);
  }
  Handler handler(source, sink);
  std::istream stream(&source);
  Json::sax_parse(stream, &handler);
  if (!handler.has_events()) {
    throw InputError({source.name()},
                     fmt::format("{}: is JSON but has no \"traceEvents\"", source.position_text(source.position())),
                     kExpected);
  }
}

// Numbers of a trace, without loss.

using namespace workload;

std::optional<std::int64_t> JsonValue::as_integer() const {
  if (kind == Kind::integer) return integer;
  if (kind == Kind::text) return parse_integer(text);
  // 256.0 is an integer to a tool that knows only doubles.
  if (kind == Kind::decimal) {
    if (text.find_first_of(".,") == std::string::npos) return std::nullopt;  // beyond 64 bits, or 1e9
    const std::size_t point = text.find_first_of(".,");
    if (text.find_first_not_of('0', point + 1) != std::string::npos) return std::nullopt;
    return parse_integer(std::string_view(text).substr(0, point));
  }
  return std::nullopt;
}

std::optional<double> JsonValue::as_double() const {
  if (kind == Kind::integer) return static_cast<double>(integer);
  if (kind != Kind::decimal && kind != Kind::text) return std::nullopt;
  if (text.empty()) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<Nanoseconds> JsonValue::as_microseconds() const {
  if (kind == Kind::integer) {
    if (integer > kMaxNanoseconds / 1000 || integer < -kMaxNanoseconds / 1000) return std::nullopt;
    return integer * 1000;
  }
  if (kind == Kind::decimal || kind == Kind::text) return parse_scaled(text, 3);
  return std::nullopt;
}

std::string JsonValue::describe() const {
  switch (kind) {
    case Kind::absent:
      return "absent";
    case Kind::null:
      return "null";
    case Kind::boolean:
      return "a boolean";
    case Kind::integer:
      return fmt::format("{}", integer);
    case Kind::decimal:
      return printable(text, 40);
    case Kind::text:
      return fmt::format("\"{}\"", printable(text, 40));
    case Kind::container:
      return "an object or array";
  }
  return "unknown";
}

std::string printable(std::string_view text, std::size_t limit) {
  const bool cut = text.size() > limit;
  std::string result(text.substr(0, limit));
  for (char& c : result) {
    if (c < ' ' || c > '~') c = '?';
  }
  return cut ? result + "..." : result;
}

}  // namespace heddle::import
