// The steps of a program that concern its cluster: barriers of all its CTAs, mbarriers, shared memory that is given
// back.
#include <utility>

#include <fmt/format.h>

#include "arch/mbarrier.h"
#include "program/program_choice.h"
#include "program/program_compiler.h"

namespace heddle::workload {
namespace {

using arch::OpCode;
using arch::Order;
using arch::Scope;
using arch::Space;

const std::vector<Order> kArriveOrders{Order::release, Order::relaxed};
const std::vector<Order> kWaitOrders{Order::acquire, Order::relaxed};

}  // namespace

void ProgramCompiler::cluster_step(OpCode code, const std::string& name, const SourcePos& where, Order order) {
  ProgramStep made = make(StepKind::operation, code, arch::Unit::none, name, where);
  made.order = order;
  made.scope = Scope::cluster;
  add(std::move(made));
}

void ProgramCompiler::cluster_barrier(const std::string& name, const SourcePos& where) {
  cluster_step(OpCode::cluster_arrive, name, where, Order::release);
  cluster_step(OpCode::cluster_wait, name, where, Order::acquire);
}

void ProgramCompiler::cluster_arrive(const MapReader& step) {
  const MapReader map = body(step, "cluster_arrive", cluster_arrive_step_spec());
  const Order order = map.has("order") ? choose(map, "order", kArriveOrders, arch::order_name) : Order::release;
  cluster_step(OpCode::cluster_arrive, "cluster_arrive", map.where(), order);
}

void ProgramCompiler::cluster_wait(const MapReader& step) {
  const MapReader map = body(step, "cluster_wait", cluster_wait_step_spec());
  const Order order = map.has("order") ? choose(map, "order", kWaitOrders, arch::order_name) : Order::acquire;
  cluster_step(OpCode::cluster_wait, "cluster_wait", map.where(), order);
}

void ProgramCompiler::target(const MapReader& map, ProgramStep& step) {
  step.space = Space::cluster;
  step.rank = expression(map, "rank");
  read(step, step.rank);
}

ProgramStep ProgramCompiler::mbarrier(const MapReader& map, OpCode code, bool remote) {
  ProgramStep made = make(StepKind::operation, code, arch::Unit::memory, arch::op_name(code), map.where());
  made.space = Space::shared;
  made.width = arch::kMbarrierBytes;
  made.order = Order::relaxed;
  made.scope = Scope::cta;
  // A test changes nothing, and every lane needs its result.
  made.one_lane = code != OpCode::mbarrier_test;
  if (map.has("lanes")) {
    made.one_lane =
        choose<std::string>(map, "lanes", {"first", "all"}, [](const std::string& s) { return s; }) == "first";
  }
  if (remote && map.has("rank")) {
    target(map, made);
    made.scope = Scope::cluster;
  }
  made.at = expression(map, "at");
  read(made, made.at);
  return made;
}

void ProgramCompiler::operand(const MapReader& map, const char* key, double otherwise, ProgramStep& step) {
  const std::uint32_t index = map.has(key) ? expression(map, key) : constant(otherwise);
  read(step, index);
  step.values.push_back({index, {}});
}

void ProgramCompiler::flag(const MapReader& map, ProgramStep& step) {
  const ProgramVariable variable = names_.together({map.text("to")}, arch::ValueType::u32, map.where("to")).front();
  step.destination = variable.first;
  step.demand.writes.push_back(variable.range());
}

void ProgramCompiler::mbarrier_init(const MapReader& step) {
  const MapReader map = body(step, "mbarrier_init", mbarrier_init_step_spec());
  ProgramStep made = mbarrier(map, OpCode::mbarrier_init, false);
  operand(map, "count", 1, made);
  add(std::move(made));
}

void ProgramCompiler::mbarrier_invalidate(const MapReader& step) {
  add(mbarrier(body(step, "mbarrier_invalidate", mbarrier_invalidate_step_spec()), OpCode::mbarrier_invalidate, false));
}

void ProgramCompiler::mbarrier_arrive(const MapReader& step) {
  const MapReader map = body(step, "mbarrier_arrive", mbarrier_arrive_step_spec());
  ProgramStep made = mbarrier(map, OpCode::mbarrier_arrive, true);
  operand(map, "count", 1, made);
  operand(map, "expect", 0, made);
  ordering(map, made, Order::release, kArriveOrders);
  if (map.has("to")) {
    if (made.space == Space::cluster) map.fail("to", "an arrival in another CTA's shared memory returns nothing");
    flag(map, made);
  }
  add(std::move(made));
}

void ProgramCompiler::mbarrier_expect(const MapReader& step) {
  const MapReader map = body(step, "mbarrier_expect", mbarrier_bytes_step_spec());
  ProgramStep made = mbarrier(map, OpCode::mbarrier_expect, true);
  operand(map, "bytes", 0, made);
  add(std::move(made));
}

void ProgramCompiler::mbarrier_complete(const MapReader& step) {
  const MapReader map = body(step, "mbarrier_complete", mbarrier_bytes_step_spec());
  ProgramStep made = mbarrier(map, OpCode::mbarrier_complete, true);
  operand(map, "bytes", 0, made);
  add(std::move(made));
}

void ProgramCompiler::mbarrier_wait(const MapReader& step) {
  const MapReader map = body(step, "mbarrier_wait", mbarrier_wait_step_spec());
  ProgramStep made = mbarrier(map, OpCode::mbarrier_wait, false);
  operand(map, "parity", 0, made);
  ordering(map, made, Order::acquire, kWaitOrders);
  add(std::move(made));
}

void ProgramCompiler::mbarrier_test(const MapReader& step) {
  const MapReader map = body(step, "mbarrier_test", mbarrier_test_step_spec());
  ProgramStep made = mbarrier(map, OpCode::mbarrier_test, false);
  operand(map, "parity", 0, made);
  ordering(map, made, Order::acquire, kWaitOrders);
  flag(map, made);
  add(std::move(made));
}

void ProgramCompiler::release_shared(const MapReader& step) {
  const MapReader map = body(step, "release_shared", release_shared_step_spec());
  ProgramStep made = make(StepKind::operation, OpCode::release_shared, arch::Unit::none, "release_shared", map.where());
  made.space = Space::shared;
  made.at = uniform(map, "from");
  add(std::move(made));
}

}  // namespace heddle::workload
