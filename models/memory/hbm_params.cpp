#include "memory/hbm_params.h"

#include <fmt/format.h>

#include "common/params.h"
#include "memory/hbm_timing.h"

namespace heddle::memory {

void HbmParams::describe(ParamTable<HbmParams>& t) {
  t.add_choice("standard", &HbmParams::standard,
               {{"hbm2e", HbmStandard::hbm2e}, {"hbm3", HbmStandard::hbm3}, {"hbm3e", HbmStandard::hbm3e}},
               "which timings, banks and widths the parts have", "NVIDIA H100 SXM data sheet: HBM3");
  t.add("channels", &HbmParams::channels, {Unit::count, 1, 4096}, "pseudo-channels over all stacks",
        "H100 SXM: 5 stacks; JESD238: 16 channels of two pseudo-channels each");
  t.add("pin_rate", &HbmParams::pin_rate, {Unit::none, 0.1, 100.0}, "data rate of a pin in Gbit/s",
        "H100 SXM: 3.35 TB/s over 5,120 pins");
  t.add("interleave", &HbmParams::interleave, {Unit::bytes, 128, 1024},
        "consecutive bytes that stay in one channel: a power of two", "assumption: a row");
  t.add("access_bytes", &HbmParams::access_bytes, {Unit::bytes, 32, 128},
        "least that is read or written at a time: 32, 64 or 128", "assumption: two bursts, which are two sectors");
  t.add("read_queue", &HbmParams::read_queue, {Unit::count, 1, 4096},
        "lines that a channel's scheduler looks at in order to read", "assumption");
  t.add("write_queue", &HbmParams::write_queue, {Unit::count, 2, 4096}, "the same, to write", "assumption");
  t.add("write_high", &HbmParams::write_high, {Unit::count, 1, 4096},
        "waiting writes at which a channel stops reading and writes", "assumption: three quarters of write_queue");
  t.add("write_low", &HbmParams::write_low, {Unit::count, 0, 4095}, "waiting writes at which it reads again",
        "assumption: a quarter of write_queue");
  t.add("hit_streak", &HbmParams::row_hit_cap, {Unit::count, 1, 65'536},
        "accesses that a bank serves from one row while an older access waits for another", "assumption: two rows");
  t.add("port_requests", &HbmParams::port_requests, {Unit::count, 1, 65'536},
        "requests that a socket has open at a time", "assumption: more than an L2 slice has misses");
  t.add("request_latency", &HbmParams::request_latency, {Unit::ns, 0.0, 100'000.0},
        "time from the socket to a channel's scheduler: controller and PHY", "assumption");
  t.add("response_latency", &HbmParams::response_latency, {Unit::ns, 0.0, 100'000.0},
        "time from the end of the data to the socket: PHY and controller", "assumption: as request_latency");
  t.add_choice("refresh", &HbmParams::refresh,
               {{"off", HbmRefresh::off}, {"all_bank", HbmRefresh::all_bank}, {"per_bank", HbmRefresh::per_bank}},
               "how rows are refreshed", "assumption: the simplest that JESD238 has");
  t.add("refresh_rate", &HbmParams::refresh_rate, {Unit::none, 0.25, 4.0},
        "refreshes as a multiple of the standard's at moderate temperature; 2: hot parts", "JEDEC: 1 up to 85 degrees");
}

void HbmParams::check() const {
  const HbmTable& table = table_of(standard);
  const auto power_of_two = [](std::uint64_t value) { return value != 0 && (value & (value - 1)) == 0; };
  if (!power_of_two(interleave) || interleave > table.row_bytes) {
    throw InputError(fmt::format("hbm.interleave is {} bytes", interleave),
                     fmt::format("give a power of two from 128 to {}", table.row_bytes));
  }
  if (!power_of_two(access_bytes)) {
    throw InputError(fmt::format("hbm.access_bytes is {}", access_bytes), "give 32, 64 or 128");
  }
  if (write_low >= write_high || write_high > write_queue) {
    throw InputError(
        fmt::format("hbm.write_low, write_high and write_queue are {}, {} and {}", write_low, write_high, write_queue),
        "let write_low be less than write_high, and write_high at most write_queue");
  }
}

}  // namespace heddle::memory
