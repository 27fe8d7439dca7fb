#include "tmau/tmau_params.h"

#include "common/param_table.h"
#include "common/params.h"

namespace heddle::tmau {

void TmauParams::describe(ParamTable<TmauParams>& t) {
  const char* assumption = "assumption";
  const char* latency =
      "fitted to HPMLL/NVIDIA-Hopper-Benchmark, tma_lat, H800: a block load of 16 bytes with its wait takes 105 cycles "
      "more than a plain load; how the stages share them is an assumption";
  const auto action = [&t](const char* name, RuleAction TmauParams::*member, const char* what, const char* source) {
    t.add_choice(name, member, {{"refuse", RuleAction::refuse}, {"report", RuleAction::report}}, what, source);
  };
  t.add("enabled", &TmauParams::enabled, "the machine has such units; without them kernels that need one are refused",
        "TMAU text: the unit is what it describes");
  t.add("sms", &TmauParams::sms, {Unit::count, 1, 32},
        "SMs that one unit serves: those that follow each other in their GPC", "TMAU text: one unit per SM");
  t.add("queue", &TmauParams::queue, {Unit::count, 1, 65'536},
        "requests of each SM that wait in the unit; up to five more are in the stages behind", assumption);
  t.add_choice("order", &TmauParams::order,
               {{"fifo", QueueOrder::fifo},
                {"blocks_first", QueueOrder::blocks_first},
                {"smallest_first", QueueOrder::smallest_first}},
               "which of an SM's waiting requests is next: in order, those without a descriptor first, or the smallest "
               "(a tensor's once its descriptor is cached); the last two can hold others back without limit",
               "TMAU text: first in, first out");
  t.add("input", &TmauParams::input, {Unit::cycles, 0, 10'000},
        "from the SM into the queue, and of a free place back to the SM", latency);
  t.add("descriptors", &TmauParams::descriptors, {Unit::count, 1, 65'536}, "entries of the descriptor cache",
        assumption);
  t.add("descriptor_hit", &TmauParams::descriptor_hit, {Unit::cycles, 0, 10'000},
        "look-up of a descriptor in the cache; one that is not there is fetched after it", assumption);
  t.add("setup", &TmauParams::setup, {Unit::cycles, 0, 10'000},
        "set-up of a tensor's request from its descriptor, while an earlier one is generated", assumption);
  t.add("generate", &TmauParams::generate, {Unit::cycles, 0, 10'000},
        "from the set-up to the first line request; others follow at the rate", latency);
  t.add("rate", &TmauParams::rate, {Unit::none, 0.01, 64.0}, "line requests per cycle", assumption);
  t.add("outstanding", &TmauParams::outstanding, {Unit::count, 1, 1'048'576},
        "line requests without an answer, at most",
        "assumption: covers the bandwidth of an SM's link at the latency of the far L2");
  t.add_choice("tracking", &TmauParams::tracking, {{"carried", Tracking::carried}, {"table", Tracking::table}},
               "how the data of a line request find their way: its packets carry it, or an index into a table",
               "TMAU text: either");
  t.add("table", &TmauParams::table, {Unit::count, 1, 1'048'576}, "entries of that table", assumption);
  t.add("carried_bytes", &TmauParams::carried_bytes, {Unit::bytes, 0, 128},
        "of the shared address, barrier and swizzle that requests and responses carry beyond their headers",
        assumption);
  t.add("response", &TmauParams::response, {Unit::cycles, 0, 10'000}, "from the network to shared memory", latency);
  t.add("peer", &TmauParams::peer, {Unit::cycles, 0, 10'000},
        "of an acknowledgement, or of fill, to another unit of the GPC", assumption);
  t.add_choice("prefetch", &TmauParams::prefetch, {{"sector", PrefetchUnit::sector}, {"line", PrefetchUnit::line}},
               "what prefetches bring into the L2: the sectors that the box touches, or whole lines",
               "TMAU text: either");
  const char* reported = "PTX ISA and public bug reports: hardware demands it";
  action("shared_alignment", &TmauParams::shared_alignment,
         "a tensor's box at no multiple of 128 in shared memory: the request is refused, or runs and is counted",
         reported);
  action("empty_box", &TmauParams::empty_box,
         "an im2col bounding box without a pixel: the request is refused, or runs one pixel a row and is counted",
         "CUDA driver interface: the box must have an area");
  action("base_outside", &TmauParams::base_outside,
         "an im2col request whose filter base position is outside the bounding box: refused, or runs and is counted",
         "TMAU text: the unit requires it to lie in the box");
  action("inner_address", &TmauParams::inner_address,
         "a tensor's box whose first byte in device memory is at no multiple of 16: refused, or runs and is counted",
         "public sources differ on whether hardware demands it");
  t.add("share_receivers", &TmauParams::share_receivers,
        "two receivers of a multicast on one SM both get the data; otherwise such a request is an error",
        "choice: as the text has it");
}

}  // namespace heddle::tmau
