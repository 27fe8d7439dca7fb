// From an entry of a module to code that runs: names become numbers, functions that it calls become part of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ptx/code_builder.h"
#include "ptx/module.h"
#include "ptx/module_image.h"
#include "ptx/name_scope.h"
#include "ptx/operand_resolver.h"

namespace heddle::ptx {

// Where CTAs of a cooperative grid meet: %envreg1 and %envreg2 are its address, the high word first, as the headers of
// cooperative groups have it.
constexpr std::uint32_t kWorkspaceBytes = 64;

// Where things are that an entry names.
struct EntryPlace {
  std::uint64_t image = 0;                 // of the module's variables: address in device memory
  std::optional<std::uint64_t> arguments;  // of the entry: address; none: that of the launch
  std::uint64_t workspace = 0;             // of a cooperative grid: address of kWorkspaceBytes of zeros
};

struct ResolvedEntry {
  PtxCode code;
  std::vector<EntryParameter> parameters;
  std::uint32_t shared_bytes = 0;  // static; dynamic shared memory begins there
  std::uint32_t local_bytes = 0;   // of a thread
};

// Throws InputError, with file, line and remedy, for everything that the model does not have.
ResolvedEntry resolve_entry(const Module& module, const std::string& entry, const EntryPlace& place);

// What a thread takes of the register file: those alive at once and what an assembler takes beside them, in steps, and
// no more than .maxnreg says (docs/ptx.md).
std::uint32_t registers_per_thread(const Function& entry, const PtxCode& code);

}  // namespace heddle::ptx
