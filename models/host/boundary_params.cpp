#include "host/boundary_params.h"

#include "common/param_table.h"
#include "common/params.h"

namespace heddle::host {

void HostParams::describe(ParamTable<HostParams>& t) {
  constexpr std::uint64_t kHighest = std::uint64_t{1} << 62;
  t.add("register_latency", &HostParams::register_latency, {Unit::ns, 0.0, 1'000'000.0},
        "time of a register access as the host sees it", "assumption: on-board link without a switch");
  t.add("aperture_latency", &HostParams::aperture_latency, {Unit::ns, 0.0, 1'000'000.0},
        "time of a blocking access to the aperture, and of a direct one",
        "assumption: a read across PCIe takes 400 to 900 ns");
  t.add("doorbell", &HostParams::doorbell, {Unit::cycles, 0, 100'000},
        "from the register block to the packet processor and the copy engines", "assumption: half of a die");
  t.add("doorbell_page", &HostParams::doorbell_page, {Unit::bytes, 4096, 65'536},
        "size of a page of doorbells, of which each subcontext has one: what an operating system maps as one; a power "
        "of two",
        "PKT-14: pages of 4 KiB");
  t.add("bar0", &HostParams::bar0, {Unit::bytes, 0, kHighest},
        "where the registers lie on the host's bus: addresses from there on are absolute, others relative; 0 for a bus "
        "that subtracts the base",
        "assumption: 0, all addresses relative");
  t.add("bar1", &HostParams::bar1, {Unit::bytes, 0, kHighest}, "the same of the device memory aperture",
        "assumption: as bar0");
  t.add("aperture_queue", &HostParams::aperture_queue, {Unit::count, 1, 65'536},
        "non-blocking accesses to the aperture that are inside at a time", "assumption");
  t.add("event_fifo", &HostParams::event_fifo, {Unit::count, 1, 65'536},
        "event ids of signals that wait in the register EVENT before one is lost", "assumption: one per queue");
}

void HubParams::describe(ParamTable<HubParams>& t) {
  t.add("latency", &HubParams::latency, {Unit::cycles, 0, 100'000},
        "cycles from the hub to an L2 slice, and the same back", "assumption: as far as an SM's way to a slice");
  t.add("bandwidth", &HubParams::bandwidth, {Unit::bytes_per_cycle, 0.25, 10'000.0},
        "bytes per cycle, headers included, from the hub to all slices together, and the same back",
        "assumption: twice what the host's bus carries");
  t.add("link_latency", &HubParams::link_latency, {Unit::ns, 0.0, 1e6},
        "time from the hub to the host's bus, and the same back",
        "assumption: a read of host memory takes about 500 ns besides the memory's own time; chosen with the costs of "
        "gpu.packet");
  t.add("link_bandwidth", &HubParams::link_bandwidth, {Unit::none, 0.01, 10'000.0},
        "GB/s to the host's bus, headers included, and the same back",
        "PCIe 5.0 x16: 63 GB/s after coding, of which large copies reach about 55");
  t.add("link_tags", &HubParams::link_tags, {Unit::count, 1, 65'536},
        "requests that are under way on the host's bus at a time", "PCIe base specification: tags of 8 bits");
  t.add("queue", &HubParams::queue, {Unit::count, 1, 65'536}, "requests of each client that wait in the hub",
        "assumption");
  t.add_choice("dma_transport", &HubParams::dma_transport,
               {{"automatic", DmaTransport::automatic},
                {"blocking", DmaTransport::blocking},
                {"nonblocking", DmaTransport::nonblocking}},
               "how the DMA initiator calls the host's bus: b_transport from as many threads as there are calls, or "
               "nb_transport; automatic: b_transport in lt, and elsewhere once the target accepts requests only with "
               "their responses",
               "HST-06");
  t.add("dma_calls", &HubParams::dma_calls, {Unit::count, 1, 65'536},
        "calls of b_transport that are open at a time; 1 for a target that cannot be called while it waits",
        "as link_tags");
  t.add("dma_direct", &HubParams::dma_direct,
        "direct pointers (DMI) of the host's bus are asked for and used in the timings fast and lt", "HST-02");
  t.add_choice("dma_incomplete", &HubParams::dma_incomplete,
               {{"ok", IncompleteMeans::ok}, {"error", IncompleteMeans::error}},
               "what a response on the host's bus means whose status nobody has set",
               "HST-06: such targets are borne; memories of public platforms never set it");
  t.add_choice("dma_atomics", &HubParams::dma_atomics,
               {{"ask", AtomicOffer::ask}, {"offer", AtomicOffer::offer}, {"split", AtomicOffer::split}},
               "how it is found out whether the host's memory carries atomics out as one: it is asked with a request "
               "for a direct pointer, is offered each with TLM_IGNORE_COMMAND, or is not asked",
               "HST-06: a question that harms no target");
  t.add("dma_answer_limit", &HubParams::dma_answer_limit, {Unit::ns, 0.0, 1e9},
        "until a request on the host's bus that is not answered ends with an error; 0: never",
        "PCIe base specification: a completion time-out should not be shorter than 10 ms");
  t.add("dma_requester", &HubParams::dma_requester, {Unit::count, 0, 0xFFFF},
        "requester id (bus, device, function) that the DMA's extension carries", "assumption: the platform gives it");
  t.add("host_windows", &HubParams::host_windows, {Unit::count, 1, 65'536},
        "windows of the host's memory that all subcontexts together can be given", "assumption");
}

}  // namespace heddle::host
