// The tables of tensors and of the steps that ask the tensor memory access unit.
#include "scenario/schema.h"

namespace heddle::workload {
namespace {

constexpr KeySpec kTensor{"tensor", true, kText,
                          "name of a tensor; or the address of its descriptor in global memory: an expression"};
constexpr KeySpec kCoordinates{
    "at", true, kText | kList,
    "coordinates of the box's first element, innermost first: a list of expressions, one per dimension"};
constexpr KeySpec kOffsets{
    "offsets", false, kText | kList,
    "of im2col: offsets in W, H, D that are added to the position: a list of expressions; default 0"};
constexpr KeySpec kToShared{"to", true, kText,
                            "offset in the receiver's shared memory, a multiple of 16: an expression"};
constexpr KeySpec kFromShared{"from", true, kText, "offset in shared memory, a multiple of 16: an expression"};
constexpr KeySpec kFromGlobal{"from", true, kText, "address in global memory, a multiple of 16: an expression"};
constexpr KeySpec kToGlobal{"to", true, kText, "address in global memory, a multiple of 16: an expression"};
constexpr KeySpec kBytes{"bytes", true, kText, "number of bytes, a multiple of 16: an expression"};
constexpr KeySpec kBarrier{"barrier", true, kText,
                           "offset in the receiver's shared memory of the mbarrier that counts the bytes: an "
                           "expression"};
constexpr KeySpec kMulticast{
    "multicast", false, kText,
    "mask of the CTAs of the cluster that receive it, bit by number: an expression; 0, and default: `cta` alone"};
constexpr KeySpec kReceiver{"cta", false, kText,
                            "number in the cluster of the CTA that receives it: an expression; default: the own one"};
constexpr KeySpec kBarrierCta{
    "barrier_cta", false, kText,
    "number in the cluster of the CTA with the mbarrier: an expression; any but the receiver is an error; default: the "
    "receiver"};
constexpr KeySpec kReduction{"op", true, kText, "add, min, max, inc, dec, and, or, xor"};
constexpr KeySpec kElement{"type", true, kText, "type of the elements, e.g. f32"};

}  // namespace

const MapSpec& tensor_spec() {
  static const MapSpec kSpec{
      "tensor",
      {
          {"name", true, kText, "name of the tensor; in programs it is the address of its descriptor"},
          {"memory", true, kText, "name of the region of memory that holds the tensor"},
          {"offset", false, kInteger | kQuantity,
           "bytes from the beginning of the region to the first element; default 0"},
          {"type", true, kText,
           "type of the elements: u8, u16, u32, s32, u64, s64, f16, bf16, f32, f32_flush, tf32, tf32_flush, f64"},
          {"size", true, kInteger | kList,
           "elements per dimension, innermost first: an integer, or a list of up to five; interleaved, the first "
           "counts channel slices"},
          {"stride", false, kInteger | kList,
           "bytes from one element to the next, of dimensions 1 and up; interleaved: of 0 and up; default: without "
           "gaps"},
          {"box", false, kInteger | kList,
           "elements per dimension of what one request moves, 1 to 256: as many as in size; not with im2col"},
          {"traversal", false, kInteger | kList,
           "distance per dimension of the elements that a request takes, 1 to 8; default 1"},
          {"swizzle", false, kText, "how it lies in shared memory: none, 32, 64 or 128; default none"},
          {"interleave", false, kText, "bytes of a channel slice that lies together: none, 16 or 32; default none"},
          {"fill", false, kText, "what elements outside the tensor read as: zero or nan; default zero"},
          {"im2col", false, kMap, "pixels of a convolution instead of a box"},
          {"broken", false, kFlag,
           "true: it breaks a rule on purpose, to test what the machine says; default false: it is refused here"},
      }};
  return kSpec;
}

const MapSpec& im2col_spec() {
  static const MapSpec kSpec{
      "im2col",
      {
          {"base_corner", true, kInteger | kList,
           "first corner of the bounding box, relative to the tensor's: an integer, or a list, for W, H, D"},
          {"far_corner", true, kInteger | kList,
           "last corner of the bounding box, relative to the tensor's: an integer, or a list, for W, H, D"},
          {"channels", true, kInteger, "channels per pixel, 1 to 256; interleaved: slices"},
          {"pixels", true, kInteger, "pixels that one request moves, 1 to 1024"},
      }};
  return kSpec;
}

const MapSpec& tensor_load_step_spec() {
  static const MapSpec kSpec{
      "tensor_load_step", {kTensor, kCoordinates, kOffsets, kToShared, kBarrier, kMulticast, kReceiver, kBarrierCta}};
  return kSpec;
}

const MapSpec& tensor_store_step_spec() {
  static const MapSpec kSpec{"tensor_store_step", {kTensor, kCoordinates, kOffsets, kFromShared}};
  return kSpec;
}

const MapSpec& tensor_reduce_step_spec() {
  static const MapSpec kSpec{"tensor_reduce_step", {kTensor, kCoordinates, kOffsets, kFromShared, kReduction}};
  return kSpec;
}

const MapSpec& tensor_prefetch_step_spec() {
  static const MapSpec kSpec{"tensor_prefetch_step", {kTensor, kCoordinates, kOffsets}};
  return kSpec;
}

const MapSpec& bulk_load_step_spec() {
  static const MapSpec kSpec{"bulk_load_step",
                             {kFromGlobal, kToShared, kBytes, kBarrier, kMulticast, kReceiver, kBarrierCta}};
  return kSpec;
}

const MapSpec& bulk_store_step_spec() {
  static const MapSpec kSpec{"bulk_store_step", {kFromShared, kToGlobal, kBytes}};
  return kSpec;
}

const MapSpec& bulk_reduce_step_spec() {
  static const MapSpec kSpec{"bulk_reduce_step", {kFromShared, kToGlobal, kBytes, kReduction, kElement}};
  return kSpec;
}

const MapSpec& bulk_prefetch_step_spec() {
  static const MapSpec kSpec{"bulk_prefetch_step", {kFromGlobal, kBytes}};
  return kSpec;
}

const MapSpec& bulk_copy_step_spec() {
  static const MapSpec kSpec{"bulk_copy_step", {kFromGlobal, kToGlobal, kBytes}};
  return kSpec;
}

const MapSpec& bulk_send_step_spec() {
  static const MapSpec kSpec{
      "bulk_send_step",
      {
          kFromShared,
          kToShared,
          kReceiver,
          kBytes,
          {"barrier", false, kText,
           "offset in the receiver's shared memory of an mbarrier that counts the bytes: an expression; default: none"},
          kBarrierCta,
          {"op", false, kText, "add, min, max, inc, dec, and, or, xor; default: what was there is overwritten"},
          {"type", false, kText, "with op: type of the elements, e.g. u32"},
      }};
  return kSpec;
}

const MapSpec& wait_bulk_step_spec() {
  static const MapSpec kSpec{
      "wait_bulk_step",
      {
          {"groups", true, kInteger, "number of groups that may be open when the warp goes on"},
          {"read", false, kFlag,
           "true: a group is over once its sources have been read; default false: once all is written"},
      }};
  return kSpec;
}

const MapSpec& fence_tensor_step_spec() {
  static const MapSpec kSpec{
      "fence_tensor_step",
      {{"tensor", false, kText, "name of a tensor, or the address of its descriptor: an expression; default: all"}}};
  return kSpec;
}

}  // namespace heddle::workload
