// The JSON of a Kineto trace, event by event: only the fields that Heddle needs, and never a tree of the file (INP-01).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "import/byte_source.h"
#include "workload/workload.h"

namespace heddle::import {

// A scalar as the file has it. Decimals keep their text: 3743411222894.405 does not survive a double.
struct JsonValue {
  enum class Kind { absent, null, boolean, integer, decimal, text, container };

  Kind kind = Kind::absent;
  std::int64_t integer = 0;
  std::string text;  // decimal, text

  bool present() const { return kind != Kind::absent && kind != Kind::null; }
  // An integer, also one written as text ("7"); nothing otherwise.
  std::optional<std::int64_t> as_integer() const;
  std::optional<double> as_double() const;
  // Microseconds, integer or decimal or either as text, as exact nanoseconds; digits beyond them round half up.
  // Nothing where it is no number or beyond +-4e18 ns.
  std::optional<workload::Nanoseconds> as_microseconds() const;
  // For messages: `"abc"`, `17`, `an object or array`.
  std::string describe() const;
};

struct JsonDims {
  bool present = false;
  bool numeric = true;  // every element is an integer
  std::size_t count = 0;
  std::array<std::int64_t, 3> extents{};
};

// The arguments of an operator of the host: four lists with an entry for each, as JSON without spaces. What a list
// lacks in the file is empty.
struct KinetoArguments {
  enum List : std::size_t { dims, types, strides, values, kLists };
  std::array<std::string, kLists> lists;
};

struct KinetoEvent {
  std::size_t index = 0;       // in traceEvents, from 0
  std::uint64_t position = 0;  // number of its first byte in the file, from 1
  JsonValue ph, cat, name, pid, tid, ts, dur;
  JsonValue device, stream, correlation, external_id, bytes, registers, shared, occupancy;
  JsonValue sync_kind, wait_on_stream, wait_on_record;
  JsonValue collective, elements_in, elements_out, element_type, group_size, group_name, group_ranks,
      sequence;  // of communication
  JsonDims grid, block;
  KinetoArguments arguments;  // only of an event whose category comes before its arguments, as recorders write it

  bool is_operator() const;
};

struct KinetoDevice {
  std::size_t index = 0;
  std::uint64_t position = 0;
  JsonValue id, name, sms, warp_size, threads_per_sm, threads_per_cta;
  JsonValue registers_per_sm, registers_per_cta;
  JsonValue shared_per_sm, max_shared_per_sm, shared_per_cta, shared_per_cta_optin;
};

class KinetoSink {
 public:
  virtual ~KinetoSink() = default;
  virtual void on_event(const KinetoEvent& event) = 0;
  virtual void on_device(const KinetoDevice& device) = 0;
};

// `text` for a message: at most `limit` characters, control and non-ASCII bytes as '?'.
std::string printable(std::string_view text, std::size_t limit = 80);

// Parses the whole source. Throws InputError where it is not JSON, ends early, or has no array "traceEvents".
void read_kineto_json(ByteSource& source, KinetoSink& sink);

}  // namespace heddle::import
