// The channels of streams in memory, and what the front end does there between two operations of a stream
// (gpu.task.gap): the end of a kernel is written, and what comes next is read. Operations themselves are kept by task
// management: what the lines say is not looked at.
#pragma once

#include <cstdint>

#include "task/launch_chain.h"

namespace heddle::task {

namespace channel {
constexpr std::uint64_t kStreams = 512;  // that have lines of their own; further ones share them
constexpr std::uint64_t kLines = 32;     // of each
constexpr std::uint64_t kBytes = kStreams * kLines * arch::kRecordBytes;
constexpr std::uint64_t kReport = 0;     // line that ends are written to
constexpr std::uint64_t kOperation = 1;  // first of those that are read of an operation
constexpr std::uint64_t kMostFetches = 16;
constexpr std::uint64_t kNode = kOperation + kMostFetches;  // first of the descriptors of a graph's kernels

constexpr std::uint64_t line(std::uint64_t base, std::uint32_t stream, std::uint64_t line) {
  return base + ((stream % kStreams) * kLines + line) * arch::kRecordBytes;
}
// Of a kernel of a graph.
constexpr std::uint64_t node_line(std::uint64_t base, std::uint32_t stream, std::uint32_t operation) {
  return line(base, stream, kNode + operation % (kLines - kNode));
}
}  // namespace channel

// Reads so many lines, one after another; DescriptorRead follows, whatever memory says.
ChainPtr fetch_chain(std::uint64_t address, std::uint64_t lines, std::uint32_t operation);
// Writes an end; EndReported follows, whatever memory says.
ChainPtr report_chain(std::uint64_t address, std::uint32_t operation);

}  // namespace heddle::task
