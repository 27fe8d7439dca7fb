// Why a packet is bad or a queue has stopped, beside the status code: one number for each cause (PKT-14). Hosts read it
// in registers; the driver library has the same texts.
#pragma once

#include <cstdint>

namespace heddle::arch {

// Number and text of each. Numbers are part of the register map: a new one goes to the end, none is used again.
#define HEDDLE_REASONS(X)                                                                           \
  X(none, 0, "none")                                                                                \
  /* Formats. */                                                                                    \
  X(packet_type, 1, "there is no such type of packets")                                             \
  X(other_type, 2, "the packet is of another type")                                                 \
  X(reserved_field, 3, "a reserved field is not 0")                                                 \
  X(header_bits, 4, "reserved bits of the header are set")                                          \
  X(fence_scope, 5, "fence scope 3 does not exist")                                                 \
  X(setup_bits, 6, "reserved bits of setup are set, or it has more than 3 dimensions")              \
  X(vendor_format, 7, "there is no such vendor format")                                             \
  X(zeroed_slot, 8, "the packet is all zeros: rings begin as packets of type INVALID")              \
  X(no_kernels, 9, "a condensed packet without kernels")                                            \
  X(many_kernels, 10, "a condensed packet of more than 31 kernels")                                 \
  X(diff_past_end, 11, "a diff runs past the 31 half-words of the packet")                          \
  X(wide_value, 12, "an 8-bit field of a diff has more bits")                                       \
  X(rest_not_zero, 13, "half-words behind the last diff are not 0")                                 \
  X(diff_header, 14, "bits of a diff header that mean nothing are set")                             \
  X(diff_fields, 15, "a diff changes fields that do not exist")                                     \
  /* Arguments. */                                                                                  \
  X(no_dimensions, 20, "a dispatch without dimensions")                                             \
  X(empty_workgroup, 21, "a workgroup size is 0")                                                   \
  X(unused_dimension, 22, "the size of an unused dimension is not 1")                               \
  X(small_grid, 23, "the grid is smaller than a workgroup")                                         \
  X(large_workgroup, 24, "a workgroup has more work-items than a CTA can")                          \
  X(large_grid, 25, "the grid has more workgroups than CTA ids can tell")                           \
  X(kernarg_alignment, 26, "kernarg is not aligned to 16 bytes")                                    \
  X(kernarg_host, 27, "kernarg is in the host's memory, which SMs do not reach")                    \
  X(no_entry, 28, "there is no such table entry: ref_num is too large")                             \
  X(empty_entry, 29, "an entry of the reference state table is empty")                              \
  X(changed_entry, 30, "what lies in memory is not the table entry")                                \
  X(no_dependency, 31, "a barrier-OR without a signal can never be satisfied")                      \
  X(long_hold, 32, "a hold of more than 1000 s")                                                    \
  X(target_range, 33, "the target runs past the end of memory")                                     \
  X(source_range, 34, "the source runs past the end of memory")                                     \
  X(fill_alignment, 35, "a fill that is not of whole, aligned 32-bit words")                        \
  X(copy_overlap, 36, "a copy onto itself: the ranges overlap")                                     \
  X(threads_limit, 37, "a workgroup has more work-items than the kernel object allows")             \
  X(cluster_grid, 38, "the clusters of the kernel object do not divide the grid")                   \
  X(partial_clusters, 39, "partial workgroups in a grid of clusters")                               \
  X(small_group_segment, 40, "the group segment is smaller than the kernel's static shared memory") \
  X(diff_entry, 41, "a diff names an entry that the table does not have")                           \
  X(grid_items, 42, "a grid of more than 4294967295 work-items")                                    \
  /* Resources. */                                                                                  \
  X(group_segment, 50, "a workgroup takes more shared memory than a CTA can have")                  \
  X(private_segment, 51, "a work-item takes more private memory than a thread can have")            \
  X(thread_registers, 52, "the kernel has more registers per thread than a thread can have")        \
  X(sm_warps, 53, "a workgroup has more warps than an SM")                                          \
  X(sm_threads, 54, "a workgroup has more threads than an SM, in whole warps")                      \
  X(sm_registers, 55, "a workgroup takes more registers than an SM has")                            \
  X(sm_shared, 56, "a workgroup takes more shared memory than an SM has")                           \
  X(sm_ctas, 57, "a workgroup takes more CTA slots than an SM has")                                 \
  X(sm_barriers, 58, "a workgroup takes more barriers than an SM has")                              \
  X(sm_other, 59, "a workgroup needs more than an SM has")                                          \
  X(cluster_room, 60, "nothing of the machine can hold a cluster")                                  \
  X(cooperative_room, 61, "a cooperative grid has more CTAs than the machine holds at once")        \
  X(machine_room, 62, "the machine cannot hold a kernel")                                           \
  /* Kernel objects. */                                                                             \
  X(object_address, 70, "kernel_object is no address of a kernel object in device memory")          \
  X(object_unreadable, 71, "the kernel object cannot be read")                                      \
  X(object_magic, 72, "there is no kernel object")                                                  \
  X(object_version, 73, "a kernel object of another version")                                       \
  X(object_flags, 74, "the kernel object has unknown flags")                                        \
  X(object_reserved, 75, "a reserved field of the kernel object is not 0")                          \
  X(object_duration, 76, "a kernel object without a program, whose CTAs have no sensible duration") \
  X(object_grid_kind, 77, "grid kind and cluster extents disagree")                                 \
  X(object_extents, 78, "cluster extents that make no sense together")                              \
  X(object_order, 79, "the kernel object has no such raster order")                                 \
  X(object_tile, 80, "raster order and tile of the kernel object disagree")                         \
  X(object_name, 81, "the name of the kernel object does not end")                                  \
  X(object_name_rest, 82, "the kernel object has bytes behind its name")                            \
  X(object_program, 83, "there is no such program")                                                 \
  X(object_code, 84, "the code lies outside device memory, or has no possible size")                \
  X(code_unreadable, 85, "the code of the kernel object cannot be read")                            \
  X(code_bytes, 86, "the code of the kernel object is no program")                                  \
  X(code_object, 87, "the kernel object has too few registers for its code, or other clusters")     \
  X(code_machine, 88, "the machine has no decoder, room or units for the code")                     \
  /* Signals, queues and memory. */                                                                 \
  X(signal_alignment, 90, "a signal is not aligned to 32 bytes, or to 64 with time stamps")         \
  X(signal_unwritable, 91, "a completion signal cannot be written")                                 \
  X(signal_unreadable, 92, "a signal that it waits for cannot be read")                             \
  X(mailbox_address, 93, "a signal names no mailbox that can be written")                           \
  X(mailbox_unwritable, 94, "a mailbox cannot be written")                                          \
  X(stamps_unwritable, 95, "the time stamps of a signal cannot be written")                         \
  X(queue_number, 100, "there is no such queue")                                                    \
  X(queue_open, 101, "the queue is not closed")                                                     \
  X(queue_size, 102, "the size is no power of two from 1 to 2^20")                                  \
  X(ring_alignment, 103, "the ring does not begin at a multiple of 64")                             \
  X(ring_range, 104, "the ring reaches past the end of memory")                                     \
  X(read_index_alignment, 105, "the read index is not at a multiple of 8")                          \
  X(first_index, 106, "the index of the first packet is above 2^63")                                \
  X(queue_subcontext, 107, "there is no such subcontext")                                           \
  X(ring_unreadable, 108, "the ring cannot be read")                                                \
  X(ring_unwritable, 109, "the ring cannot be written")                                             \
  X(read_index_unwritable, 110, "the read index cannot be written")                                 \
  X(table_unreadable, 111, "the reference state table cannot be read")                              \
  X(table_unwritable, 112, "the reference state table cannot be written")                           \
  X(write_back, 113, "what the caches hold cannot be written back")                                 \
  X(copy_memory, 114, "memory refused a copy")                                                      \
  X(kernel_fault, 115, "a CTA of a kernel faulted")                                                 \
  X(agent_error, 116, "the host ended an agent packet with an error")                               \
  X(negative_signal, 117, "a signal that it waits for is negative")                                 \
  X(inactivated, 118, "killed: its queue was inactivated")

enum class Reason : std::uint16_t {
#define HEDDLE_REASON(name, number, text) name = (number),
  HEDDLE_REASONS(HEDDLE_REASON)
#undef HEDDLE_REASON
};

// A sentence for people; of numbers that no reason has: "unknown reason".
constexpr const char* reason_text(Reason reason) {
  switch (reason) {
#define HEDDLE_REASON(name, number, text) \
  case Reason::name:                      \
    return text;
    HEDDLE_REASONS(HEDDLE_REASON)
#undef HEDDLE_REASON
  }
  return "unknown reason";
}

}  // namespace heddle::arch
