// The steps of programs, a row each: how a step is written down, what it means, and what becomes of its keys. The
// schema, the compiler, the names in messages and the tables of the documents come from these rows. A step that is one
// operation of the SM needs its row and nothing else, unless a key means something that no operand says; how to add one
// is told in docs/howto/add-an-operation.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/map_reader.h"
#include "program/program_builder.h"
#include "program/program_parts.h"

namespace heddle::program {

// What becomes of a key's value. Those that make names (`new_name`) come last, so that no step reads what it makes.
enum class Target : std::uint8_t {
  handled,          // the row's handler reads it
  address,          // an expression: Operation::address
  uniform_address,  // an expression that is the same for all lanes
  rank,             // an expression: the CTA of the cluster whose shared memory it is
  number,           // an expression: the next word of Operation::data; without the key: `otherwise`
  barrier,          // an expression that is the same for all lanes: Operation::barrier; without the key: 0
  count,            // a number: Operation::count
  order,            // a word: Operation::order
  scope,            // a word: Operation::scope
  cga_level,        // a word: Operation::cga_level
  lanes,            // `first` or `all` of the lanes that take part
  read,             // true or false: Operation::read
  mode,             // multicast or load_balancing: Operation::mode
  new_name,         // a name that gets Operation::destination, as u32
  tensor,  // an expression, the address of a descriptor: of the step's request to the tensor memory access unit,
           // else Operation::address; without the key: 0, all descriptors
  // What follows goes into such a request.
  field,        // an expression: the field of that name
  bytes,        // an expression: a multiple of kBulkBlock
  coordinates,  // a list of expressions, one per dimension of the tensor
  offsets,      // a list of expressions: of im2col
  reduction,    // a word: how elements are combined
  element,      // a word: their type
  four_rows,    // true or false
  carried,      // true or false: the request has the tensor's parameters
  priority,     // a word: the L2's eviction priority
  byte_mask,    // a number
};

struct Operand {
  Target target = Target::handled;
  double otherwise = 0;
  BulkField field = BulkField::global;
};
constexpr Operand number_or(double otherwise) { return {Target::number, otherwise}; }
constexpr Operand field(BulkField field) { return {Target::field, 0, field}; }

struct StepKey {
  KeySpec key;
  Operand operand = {};
};

struct StepRow;

// A step in a file. `map`: what its row's keys stand in, or the step itself where the row has no keys.
struct StepSource {
  const StepRow& row;
  const MapReader& map;
  SourcePos where;
};
using StepHandler = void (*)(ProgramBuilder&, const StepSource&);

struct StepRow {
  StepRow(const char* its_name, const char* its_meaning, const char* its_cost)
      : name(its_name), meaning(its_meaning), cost(its_cost) {}

  // The step is a map with these keys.
  StepRow& with(std::vector<StepKey> keys, const char* rules = nullptr);
  // Or something else stands behind its name.
  StepRow& behind(unsigned kinds_of_it, Form its_form, Operand operand = {});
  // Or its name stands alone.
  StepRow& alone();
  // It is one operation; `prepare` sets what no key says.
  StepRow& does(arch::OpCode operation, void (*prepare_step)(ProgramStep&) = nullptr);
  // It is one request to the tensor memory access unit.
  StepRow& asks(arch::OpCode operation, arch::BulkKind kind);
  // What has to hold between its keys; throws InputError.
  StepRow& checked(void (*check_step)(const MapReader&, const ProgramStep&));
  // Function that compiles it, where keys and operands do not say enough.
  StepRow& by(StepHandler function);

  const char* name;
  const char* meaning;            // one line
  const char* cost;               // what a warp issues for it; empty: its operation
  bool word = false;              // the name may stand alone
  unsigned kinds = 0;             // of what stands behind the name; 0: the name always stands alone
  Form form;                      // of that
  MapSpec spec;                   // of a map behind it
  std::vector<Operand> operands;  // of the keys of `spec`
  Operand value;                  // of what stands behind the name, if it is no map
  arch::OpCode code = arch::OpCode::compute;
  std::optional<arch::BulkKind> bulk;
  void (*prepare)(ProgramStep&) = nullptr;
  void (*check)(const MapReader&, const ProgramStep&) = nullptr;
  StepHandler handler = nullptr;
};

// In the order of the documents.
const std::vector<StepRow>& step_rows();

// A step: one key, which is the name of a row. Words alone are no part of it.
const MapSpec& step_spec();
// Names of the steps that may stand alone.
const std::vector<std::string>& step_words();
// Maps within steps.
const MapSpec& accumulators_spec();
const MapSpec& role_spec();
const MapSpec& set_spec();  // keys of `set` beside the name
// Tables of all maps that a program consists of.
std::vector<const MapSpec*> program_specs();

// A table in Markdown, and all keys with their meanings as text.
std::string steps_as_markdown();
std::string steps_as_text();

// Compiles one step of a list.
void compile_step(ProgramBuilder& program, const YAML::Node& node);
// Compiles a step as its row's keys and operands say (operation_compiler.cpp).
void compile_operation(ProgramBuilder& program, const StepSource& source);

// Keys that steps share with other parts of a scenario. "none", "32", "64", "128":
arch::Swizzle read_swizzle(const MapReader& map, const char* key);
// `level`, of the barrier of a cluster that the kernel must have; none without it.
std::optional<arch::CgaLevel> read_cga_level(const ProgramBuilder& program, const MapReader& map, const char* key);
// `insert: head`.
bool reads_head(const MapReader& map);
// `space`; global without it.
arch::Space read_space(const MapReader& map);

// Handlers: control flow (flow_steps.cpp), accesses (access_steps.cpp), matrix multiply (access_steps.cpp), launches
// (flow_steps.cpp).
void compile_let(ProgramBuilder& program, const StepSource& source);
void compile_loop(ProgramBuilder& program, const StepSource& source);
void compile_while(ProgramBuilder& program, const StepSource& source);
void compile_if(ProgramBuilder& program, const StepSource& source);
void compile_roles(ProgramBuilder& program, const StepSource& source);
void compile_exit(ProgramBuilder& program, const StepSource& source);
void compile_grid_barrier(ProgramBuilder& program, const StepSource& source);
void compile_cluster_barrier(ProgramBuilder& program, const StepSource& source);
void compile_set(ProgramBuilder& program, const StepSource& source);
void compile_load(ProgramBuilder& program, const StepSource& source);
void compile_store(ProgramBuilder& program, const StepSource& source);
void compile_replace(ProgramBuilder& program, const StepSource& source);
void compile_atomic(ProgramBuilder& program, const StepSource& source);
void compile_compute(ProgramBuilder& program, const StepSource& source);
void compile_special(ProgramBuilder& program, const StepSource& source);
void compile_copy_async(ProgramBuilder& program, const StepSource& source);
void compile_accumulators(ProgramBuilder& program, const StepSource& source);
void compile_zero(ProgramBuilder& program, const StepSource& source);
void compile_matmul(ProgramBuilder& program, const StepSource& source);
void compile_store_tile(ProgramBuilder& program, const StepSource& source);
void compile_launch(ProgramBuilder& program, const StepSource& source);
void compile_wait_children(ProgramBuilder& program, const StepSource& source);
void compile_append(ProgramBuilder& program, const StepSource& source);
void compile_queue_close(ProgramBuilder& program, const StepSource& source);
void compile_event_create(ProgramBuilder& program, const StepSource& source);
void compile_event_destroy(ProgramBuilder& program, const StepSource& source);
void compile_event_mark(ProgramBuilder& program, const StepSource& source);

}  // namespace heddle::program
