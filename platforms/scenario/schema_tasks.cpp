// The tables of what concerns tasks: launches by programs, queues, subcontexts.
#include "scenario/schema.h"

namespace heddle::workload {

const MapSpec& launch_step_spec() {
  static const MapSpec kSpec{
      "launch_step",
      {
          {"kernel", true, kText, "name of a kernel of the list `kernels`"},
          {"grid", false, kText | kList,
           "CTAs: an expression, or a list of up to three (x, y, z); default: the kernel's own"},
          {"args", false, kText | kList,
           "expression, or list of up to six: what the child finds at `kernarg`, in 64 bits each"},
          {"stream", false, kText, "number of the stream, 0 or as stream_create gave it: an expression; default 0"},
          {"mode", false, kText,
           "stream (after what was launched into the stream before), fire_and_forget (at once) or tail (once the "
           "launching grid and all else that it launched have completed); default stream"},
          {"priority", false, kInteger, "priority: larger is more urgent; default 0"},
          {"insert", false, kText, "tail or head: where it enters the list of its priority; default tail"},
      }};
  return kSpec;
}

const MapSpec& append_step_spec() {
  static const MapSpec kSpec{
      "append_step",
      {
          {"queue", true, kText, "name of a queue of the list `queues`"},
          {"value", true, kText | kList,
           "expression, or list of up to seven: what the CTA of the entry finds at `kernarg`, in 64 bits each"},
      }};
  return kSpec;
}

const MapSpec& queue_spec() {
  static const MapSpec kSpec{"queue",
                             {
                                 {"name", true, kText, "name of the queue; in programs it is the queue's address"},
                                 {"capacity", true, kInteger, "number of entries that it holds at a time"},
                                 {"gpu", false, kInteger, "number of the GPU, from 0; default 0"},
                                 {"initial", false, kMap, "entries that it holds when the run begins; default: none"},
                             }};
  return kSpec;
}

const MapSpec& queue_initial_spec() {
  static const MapSpec kSpec{
      "queue_initial",
      {
          {"count", true, kInteger, "number of entries, at most the capacity"},
          {"value", true, kText | kList,
           "expression over i, the number of the entry, or list of up to seven: the 64-bit words of the entry"},
      }};
  return kSpec;
}

const MapSpec& subcontext_spec() {
  static const MapSpec kSpec{
      "subcontext",
      {
          {"id", true, kInteger, "number of the subcontext, 0 to 63"},
          {"credits", false, kInteger,
           "number of TPCs that it may hold at a time; default: gpu.cwd.tpc_credits; for mode dynamic"},
          {"tpcs", false, kList,
           "list of the TPCs where it may run, [GPC, TPC of the GPC] each; default: as the machine begins"},
          {"translated", false, kFlag,
           "true: it has an address space of its own, with the regions of `memory` that name it; default false"},
          {"gpu", false, kInteger, "number of the GPU, from 0; default 0"},
      }};
  return kSpec;
}

const MapSpec& share_spec() {
  static const MapSpec kSpec{
      "share",
      {
          {"at", false, kInteger | kQuantity, "time with unit when it changes, e.g. 5 us; default 0"},
          {"mode", false, kText, "none, static or dynamic: how all subcontexts share the TPCs"},
          {"subcontext", false, kInteger, "number of the subcontext that the change concerns, instead of `mode`"},
          {"credits", false, kInteger, "number of TPCs that it may hold at a time"},
          {"gpc", false, kInteger, "number of the GPC, from 0; with tpc"},
          {"tpc", false, kInteger, "number of the TPC in its GPC, from 0; with gpc"},
          {"enabled", false, kFlag, "true: it may run on that TPC; false: it may not, and what runs there ends"},
          {"block", false, kInteger, "number of the local-memory block that it uses on that TPC, in mode static"},
          {"gpu", false, kInteger, "number of the GPU, from 0; default 0"},
      }};
  return kSpec;
}

const MapSpec& expect_no_progress_spec() {
  static const MapSpec kSpec{
      "expect_no_progress",
      {{"no_progress", true, kText, "text that the chain of waits contains with which the run must end"}}};
  return kSpec;
}

}  // namespace heddle::workload
