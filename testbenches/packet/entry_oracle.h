// An oracle of table entries in memory, from their description in packet/reference_table.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "packet/object_oracle.h"
#include "packet/packet_oracle.h"

namespace heddle::oracle {

// The layout of an entry, from its description.
inline EntryImage entry_of(std::uint32_t entry_number, const Image& packet, const ObjectImage& object) {
  EntryImage entry{'H', 'D', 'R', 'E'};
  const auto copy = [&](std::size_t from, std::size_t bytes, std::size_t to) {
    set_number(entry, to, bytes, number(packet, from, bytes));
  };
  set_number(entry, 4, 2, entry_number);
  copy(1, 1, 6);
  copy(2, 2, 8);
  for (std::size_t i = 0; i < 3; ++i) copy(4 + 2 * i, 2, 10 + 2 * i);
  for (std::size_t i = 0; i < 3; ++i) copy(12 + 4 * i, 4, 16 + 4 * i);
  copy(24, 4, 28);
  copy(28, 4, 32);
  bool partial = false;
  const Extents groups = ctas(packet, partial);
  for (std::size_t i = 0; i < 3; ++i) set_number(entry, 40 + 4 * i, 4, groups[i]);
  entry[52] = partial ? 1 : 0;
  copy(40, 8, 56);
  copy(56, 8, 64);
  copy(32, 8, 72);
  std::copy(object.begin(), object.end(), entry.begin() + 128);
  return entry;
}

// What is wrong with taking the bytes for entry `number`; null: nothing. They are an entry of some packet and its
// object, with all that follows from these.
inline const char* judge_taken_entry(const EntryImage& entry, std::uint32_t entry_number) {
  Image packet{};
  packet[0] = 6;
  set_number(packet, 1, 1, entry[6]);
  set_number(packet, 2, 2, number(entry, 8, 2));
  for (std::size_t i = 0; i < 3; ++i) set_number(packet, 4 + 2 * i, 2, number(entry, 10 + 2 * i, 2));
  for (std::size_t i = 0; i < 5; ++i) set_number(packet, 12 + 4 * i, 4, number(entry, 16 + 4 * i, 4));
  set_number(packet, 32, 8, number(entry, 72, 8));
  set_number(packet, 40, 8, number(entry, 56, 8));
  set_number(packet, 56, 8, number(entry, 64, 8));
  ObjectImage contents;
  std::copy(entry.begin() + 128, entry.end(), contents.begin());
  Object meant;
  if (!format_of_dispatch(packet).none() || !fields_of_dispatch(packet, {}).none()) return "an entry of a bad packet";
  if (!read(contents, meant).none() || !together(packet, meant, {}).none()) return "an entry of a bad kernel";
  return entry_of(entry_number, packet, contents) == entry ? nullptr : "what does not follow from an entry's packet";
}

}  // namespace heddle::oracle
