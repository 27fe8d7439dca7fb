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
  t.add_choice("requests", &TmauParams::requests,
               {{"all", Requests::all}, {"tensors", Requests::tensors}, {"blocks", Requests::blocks}},
               "which requests the units are for; kernels that make others are refused", "TMAU text: any of the three");
  t.add("sms", &TmauParams::sms, {Unit::count, 1, 32},
        "SMs that one unit serves: those that follow each other in their GPC", "TMAU text: one unit per SM");
  t.add("queue", &TmauParams::queue, {Unit::count, 1, 65'536},
        "requests of each SM that wait in the unit, besides those in the stages behind", assumption);
  t.add_choice("order", &TmauParams::order,
               {{"fifo", QueueOrder::fifo},
                {"blocks_first", QueueOrder::blocks_first},
                {"smallest_first", QueueOrder::smallest_first},
                {"same_type_first", QueueOrder::same_type_first},
                {"same_space_first", QueueOrder::same_space_first}},
               "which of an SM's waiting requests is next: in order, those without a descriptor first, the smallest, "
               "those with elements of the type of the one before, or those between the memories of the one before "
               "(size and type of a tensor are known once its descriptor is cached); all but the first can hold others "
               "back without limit",
               "TMAU text: first in, first out");
  t.add_choice("queues", &TmauParams::queues,
               {{"one", Queues::one}, {"by_kind", Queues::by_kind}, {"prefetches_apart", Queues::prefetches_apart}},
               "an SM's requests wait and are generated in one line, or in two that take turns: one of tensors and one "
               "of blocks, or one of prefetches and one of all others; the places of `queue` are for both together, "
               "those of `stages` for each",
               "TMAU text: one, or one for each kind; prefetches apart is an alternative to both");
  t.add("input", &TmauParams::input, {Unit::cycles, 0, 10'000},
        "from the SM into the queue, and of a free place back to the SM", latency);
  t.add("descriptors", &TmauParams::descriptors, {Unit::count, 1, 65'536}, "entries of the descriptor cache",
        assumption);
  t.add("descriptor_hit", &TmauParams::descriptor_hit, {Unit::cycles, 0, 10'000},
        "look-up of a descriptor in the cache; one that is not there is fetched after it", assumption);
  const char* setup =
      "with descriptor_hit and two loops: what a tensor's load of 1 KiB takes longer than a block's, 588 against 566 "
      "cycles, and its store, 296 against 271: hibouwu/CUDA_optimazation EXP-14 and -15, GH200; how the three share it "
      "is an assumption";
  t.add("setup", &TmauParams::setup, {Unit::cycles, 0, 10'000},
        "set-up of a tensor's request from its descriptor, while an earlier one is generated: rules and base address",
        setup);
  t.add(
      "setup_loop", &TmauParams::setup_loop, {Unit::cycles, 0, 10'000},
      "the same for each loop of its walk: one for each dimension, and im2col one more for each that the bounding box "
      "has",
      setup);
  t.add("stages", &TmauParams::stages, {Unit::count, 1, 1024},
        "requests of each SM in the stages behind the queue, the one that is generated included; with fewer than the "
        "stages hold, small requests do not follow each other without gaps",
        "assumption: look-up, two of set-up, first line, generation");
  t.add("generate", &TmauParams::generate, {Unit::cycles, 0, 10'000},
        "from the set-up to the first line request; others follow at the rate", latency);
  const auto rate = [&t](const char* name, double TmauParams::*member, const char* what, const char* source) {
    t.add(name, member, {Unit::per_cycle, 0.01, 64.0}, what, source);
  };
  rate("rate", &TmauParams::rate,
       "line requests per cycle that the generator makes for loads, and the like, of tensors: three in four cycles",
       "fitted to 64 KiB of rows of 128 bytes, side by side and 144 bytes apart, in 1,182 and 1,916 cycles: "
       "hibouwu/CUDA_optimazation EXP-15, GH200");
  rate("block_rate", &TmauParams::block_rate, "the same of blocks",
       "43 bytes per cycle beyond the first line: hibouwu/CUDA_optimazation EXP-14, GH200");
  rate("store_rate", &TmauParams::store_rate,
       "line requests per cycle for stores, reductions and sends of tensors: the way out of shared memory takes 32 "
       "bytes "
       "per cycle",
       "64 KiB in 2,274 cycles: hibouwu/CUDA_optimazation EXP-15, GH200");
  rate("block_store_rate", &TmauParams::block_store_rate, "the same of blocks",
       "64 KiB in 3,799 cycles: hibouwu/CUDA_optimazation EXP-14, GH200");
  t.add("turn", &TmauParams::turn, {Unit::count, 1, 65'536},
        "line requests that an SM of a unit makes in a row while another one has some as well", assumption);
  t.add("ahead", &TmauParams::ahead, {Unit::cycles, 1, 1000},
        "what leaves within so many cycles leaves by one event of the simulation; what runs ahead takes the SM's link "
        "before what the SM itself sends meanwhile",
        "choice: small against every latency");
  t.add("outstanding", &TmauParams::outstanding, {Unit::count, 1, 1'048'576},
        "line requests without an answer, at most", "assumption: covers the rate at the latency of the far L2");
  t.add_choice("tracking", &TmauParams::tracking, {{"carried", Tracking::carried}, {"table", Tracking::table}},
               "how the data of a line request find their way: its packets carry it, or an index into a table",
               "TMAU text: either");
  t.add("table", &TmauParams::table, {Unit::count, 1, 1'048'576},
        "entries of that table; an index has as many bytes as they need", assumption);
  t.add("table_latency", &TmauParams::table_latency, {Unit::cycles, 0, 10'000},
        "look-up in that table when the data of a load come; those of multicasts carry everything, as other units have "
        "no such entry",
        assumption);
  t.add("carried_bytes", &TmauParams::carried_bytes, {Unit::bytes, 0, 128},
        "of the shared address, barrier and swizzle that requests and responses carry beyond their headers",
        assumption);
  t.add("response", &TmauParams::response, {Unit::cycles, 0, 10'000}, "from the network to shared memory", latency);
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

const char* TmauParams::missing(const arch::TmauNeeds& needs) const {
  if (!enabled) return needs.unit ? "a tensor memory access unit" : nullptr;
  if (needs.tensors && requests == Requests::blocks) return "a tensor memory access unit for tensors";
  if (needs.blocks && requests == Requests::tensors) return "a tensor memory access unit for blocks";
  return nullptr;
}

}  // namespace heddle::tmau
