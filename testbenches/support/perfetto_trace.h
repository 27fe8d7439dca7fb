// Reads Perfetto's traces back, from the wire format of protocol buffers and the numbers of fields in the public
// definitions of perfetto.dev.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

namespace heddle::test {

class WireMessage {
 public:
  struct Field {
    std::uint64_t number = 0;
    std::uint64_t value = 0;  // of varint, fixed64
    std::string bytes;        // of what has a length
  };
  explicit WireMessage(const std::string& bytes) {
    std::size_t at = 0;
    const auto varint = [&] {
      std::uint64_t value = 0;
      for (unsigned shift = 0;; shift += 7) {
        REQUIRE((at < bytes.size() && shift < 64));
        const auto byte = static_cast<unsigned char>(bytes[at++]);
        value |= std::uint64_t{byte & 0x7FU} << shift;
        if (byte < 0x80) return value;
      }
    };
    while (at < bytes.size()) {
      const std::uint64_t tag = varint();
      Field& field = fields_.emplace_back();
      field.number = tag >> 3U;
      const std::uint64_t type = tag & 7U;
      REQUIRE((type == 0 || type == 1 || type == 2));
      if (type == 0) field.value = varint();
      if (type == 1) {
        REQUIRE(at + 8 <= bytes.size());
        std::memcpy(&field.value, bytes.data() + at, 8);
        at += 8;
      }
      if (type == 2) {
        const std::uint64_t length = varint();
        REQUIRE(length <= bytes.size() - at);
        field.bytes = bytes.substr(at, length);
        at += length;
      }
    }
  }
  const std::vector<Field>& fields() const { return fields_; }
  const Field* find(std::uint64_t number) const {
    for (const Field& field : fields_) {
      if (field.number == number) return &field;
    }
    return nullptr;
  }
  bool has(std::uint64_t number) const { return find(number) != nullptr; }
  std::uint64_t number(std::uint64_t field) const { return has(field) ? find(field)->value : 0; }
  std::string text(std::uint64_t field) const { return has(field) ? find(field)->bytes : std::string(); }
  WireMessage message(std::uint64_t field) const { return WireMessage(text(field)); }

 private:
  std::vector<Field> fields_;
};

// What a viewer makes of a trace: events in the order of their times, equal times in that of the file.
struct PerfettoTrace {
  struct Slice {
    std::uint64_t begin = 0;  // ns
    std::uint64_t end = 0;
    std::size_t depth = 0;
    std::string name;
    std::map<std::string, std::int64_t> args;
    std::vector<std::uint64_t> flows;  // that begin here
    std::vector<std::uint64_t> ended;  // that end here
  };
  struct Line {
    std::uint64_t rank = 0;
    bool values = false;
    std::vector<Slice> slices;  // in the order of their beginnings
    std::vector<std::pair<std::uint64_t, double>> samples;
  };
  std::map<std::string, std::map<std::string, Line>> groups;  // by name, lines by name

  explicit PerfettoTrace(const std::string& bytes) {
    std::map<std::uint64_t, std::string> processes;
    std::map<std::uint64_t, Line*> tracks;
    std::map<std::uint64_t, std::string> names;
    std::map<std::uint64_t, std::string> keys;
    std::map<Line*, std::vector<std::size_t>> open;
    std::multimap<std::uint64_t, WireMessage> events;  // equal keys in the order of their insertion
    std::uint64_t sequence = 0;
    const WireMessage file(bytes);
    for (const WireMessage::Field& field : file.fields()) {
      REQUIRE(field.number == 1);
      const WireMessage packet(field.bytes);
      // One sequence, whose state is cleared by its first packet.
      REQUIRE(packet.number(10) != 0);
      REQUIRE((packet.number(13) & 1U) == (sequence == 0 ? 1U : 0U));
      if (sequence == 0) sequence = packet.number(10);
      REQUIRE(packet.number(10) == sequence);
      if (packet.has(12)) {
        const WireMessage interned = packet.message(12);
        for (const WireMessage::Field& entry : interned.fields()) {
          REQUIRE((entry.number == 2 || entry.number == 3));
          const WireMessage its(entry.bytes);
          REQUIRE(its.number(1) != 0);
          REQUIRE((entry.number == 2 ? names : keys).emplace(its.number(1), its.text(2)).second);
        }
      }
      if (packet.has(60)) {
        const WireMessage track = packet.message(60);
        if (track.has(3)) {
          REQUIRE(track.number(11) == 3);  // lines in the order of their ranks
          REQUIRE(processes.emplace(track.number(1), track.message(3).text(6)).second);
        } else {
          Line& line = groups[processes.at(track.number(5))][track.text(2)];
          line.rank = track.number(12);
          line.values = track.has(8);
          REQUIRE(tracks.emplace(track.number(1), &line).second);
        }
      }
      if (!packet.has(11)) continue;
      REQUIRE((packet.number(13) & 2U) != 0);
      const WireMessage event = packet.message(11);
      // What it needs has been told.
      if (event.has(10)) REQUIRE(names.count(event.number(10)) == 1);
      REQUIRE(tracks.count(event.number(11)) == 1);
      events.emplace(packet.number(8), event);
    }
    for (const auto& [when, event] : events) {
      Line& line = *tracks.at(event.number(11));
      std::vector<std::size_t>& its_open = open[&line];
      switch (event.number(9)) {
        case 1: {
          Slice& slice = line.slices.emplace_back();
          slice.begin = when;
          slice.depth = its_open.size();
          slice.name = names.at(event.number(10));
          for (const WireMessage::Field& field : event.fields()) {
            if (field.number == 47) slice.flows.push_back(field.value);
            if (field.number == 48) slice.ended.push_back(field.value);
            if (field.number != 4) continue;
            const WireMessage annotation(field.bytes);
            slice.args[keys.at(annotation.number(1))] = static_cast<std::int64_t>(annotation.number(4));
          }
          its_open.push_back(line.slices.size() - 1);
          break;
        }
        case 2:
          REQUIRE_FALSE(its_open.empty());
          line.slices[its_open.back()].end = when;
          its_open.pop_back();
          break;
        case 4: {
          REQUIRE(line.values);
          double value = 0;
          const std::uint64_t bits = event.number(44);
          std::memcpy(&value, &bits, sizeof value);
          line.samples.emplace_back(when, value);
          break;
        }
        default:
          FAIL("a type of event that we do not write");
      }
    }
    for (const auto& [line, its_open] : open) REQUIRE(its_open.empty());
  }
};

}  // namespace heddle::test
