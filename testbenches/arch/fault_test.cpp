// What is said of a fault.
#include "arch/fault.h"

#include <set>
#include <string>

#include <catch2/catch.hpp>

namespace arch_fault_test {

using namespace heddle::arch;
using Catch::Contains;

namespace {

FaultRecord record(FaultKind kind, OpCode operation) {
  FaultRecord fault;
  fault.kind = kind;
  fault.operation = operation;
  fault.sm = 3;
  fault.cta = 17;
  fault.cta_x = 1;
  fault.cta_y = 2;
  fault.warp = 2;
  fault.lane = 5;
  fault.address = 0x1000;
  return fault;
}

}  // namespace

TEST_CASE("a fault says where, what and why", "[arch][MEM-05]") {
  FaultRecord fault = record(FaultKind::address, OpCode::store);
  fault.where = "store (line 12)";
  CHECK(text_of(fault) == "SM 3, CTA 17 (1, 2, 0), warp 2, lane 5: store (line 12) to 0x1000: address outside memory");
  CHECK(text_of(record(FaultKind::unsupported, OpCode::launch_child)) ==
        "SM 3, CTA 17 (1, 2, 0), warp 2, lane 5: launch_child: not supported by this machine");
  CHECK_THAT(text_of(record(FaultKind::misaligned, OpCode::load)), Contains("load from 0x1000: address not aligned"));
  CHECK_THAT(text_of(record(FaultKind::shared_bounds, OpCode::atomic)),
             Contains("atomic at 0x1000: beyond the CTA's shared memory"));
  CHECK_THAT(text_of(record(FaultKind::barrier, OpCode::barrier)), Contains("barrier: no such barrier"));
  FaultRecord child = record(FaultKind::child, OpCode::launch_child);
  child.of_tasks = true;
  child.where = "there is no kernel object";
  CHECK(text_of(child) == "task management: there is no kernel object, at 0x1000");
}

// CGA-07: with warp and step.
TEST_CASE("an error of DSMEM that the source sees names warp, step and address", "[arch][CGA-07]") {
  FaultRecord fault = record(FaultKind::cluster_rank, OpCode::load);
  fault.where = "load x (line 4)";
  fault.address = 0x900'0010;
  CHECK(text_of(fault) ==
        "SM 3, CTA 17 (1, 2, 0), warp 2, lane 5: load x (line 4) from 0x9000010: the CGA has no such CTA");
  CHECK_THAT(text_of(record(FaultKind::cluster_absent, OpCode::store)), Contains("store to 0x1000: no SM is known"));
  CHECK_THAT(text_of(record(FaultKind::cluster_offset, OpCode::atomic)), Contains("atomic at 0x1000: offset above"));
  CHECK_THAT(text_of(record(FaultKind::cluster_domain, OpCode::load)),
             Contains("load from 0x1000: the CTAs of this cluster are not held together in one GPC (CGA-15)"));
  CHECK_THAT(text_of(record(FaultKind::cluster_domain, OpCode::cluster_arrive)),
             Contains("cluster_arrive: the CTAs of this cluster are not held together"));
  CHECK_THAT(text_of(record(FaultKind::poison, OpCode::load)), Contains("load from 0x1000: the data are corrupt"));
  CHECK_THAT(text_of(record(FaultKind::mbarrier, OpCode::mbarrier_arrive)),
             Contains("mbarrier_arrive at 0x1000: not an initialised mbarrier"));
}

// CGA-08: attributed to the CGA, without warp and step.
TEST_CASE("an error that the target alone sees names the CGA and its CTAs", "[arch][CGA-08]") {
  FaultRecord fault = record(FaultKind::cta_not_present, OpCode::store);
  fault.where = "store (line 9)";
  fault.of_cga = true;
  fault.cga = 5;
  fault.gpc = 1;
  fault.gpc_local_cga_id = 4;
  fault.cta_id_in_cga = 1;
  fault.target = 2;
  fault.address = 0x40;
  CHECK(text_of(fault) ==
        "SM 3, CGA 5 (GPC 1, local id 4), CTA 1 of the CGA: an access to CTA 2 at offset 0x40: the CTA has exited");
  for (const FaultKind kind : {FaultKind::out_of_range, FaultKind::poison, FaultKind::mbarrier}) {
    fault.kind = kind;
    const std::string text = text_of(fault);
    CHECK_THAT(text, Contains(std::string("an access to CTA 2 at offset 0x40: ") + fault_text(kind)));
    CHECK_THAT(text, !Contains("warp") && !Contains("lane") && !Contains("line 9"));
  }
}

TEST_CASE("a fault of a request to the TMAU names the rule that it breaks", "[arch][TMA-06]") {
  FaultRecord fault = record(FaultKind::tensor, OpCode::tensor_load);
  fault.rule = TensorRule::stride_range;
  CHECK(text_of(fault) ==
        "SM 3, CTA 17 (1, 2, 0), warp 2, lane 5: tensor_load at 0x1000: the request breaks a rule of the tensor memory "
        "access unit (stride_range: a stride is 2^40 or more)");
  fault.where = "tensor_load a_tiles (line 7)";
  for (std::size_t i = 1; i < kTensorRules; ++i) {
    fault.rule = static_cast<TensorRule>(i);
    const std::string rule = std::string(rule_key(fault.rule)) + ": " + rule_text(fault.rule);
    CHECK_THAT(text_of(fault), Contains("tensor_load a_tiles (line 7) at 0x1000") && Contains("(" + rule + ")"));
  }
  CHECK_THAT(text_of(record(FaultKind::address, OpCode::tensor_load)), !Contains("rule"));
}

TEST_CASE("every kind of fault has a key and a text of its own", "[arch][CGA-08]") {
  std::set<std::string> keys;
  std::set<std::string> texts;
  for (std::size_t i = 0; i < kFaultKinds; ++i) {
    keys.insert(fault_key(static_cast<FaultKind>(i)));
    texts.insert(fault_text(static_cast<FaultKind>(i)));
  }
  CHECK(keys.size() == kFaultKinds);
  CHECK(texts.size() == kFaultKinds);
  CHECK(fault_key(FaultKind::barrier) == std::string("barrier"));
  CHECK(fault_key(FaultKind::cluster_rank) == std::string("cluster_rank"));
  CHECK(fault_key(FaultKind::cluster_domain) == std::string("cluster_domain"));
  CHECK(fault_key(FaultKind::cta_not_present) == std::string("cta_not_present"));
  CHECK(fault_key(FaultKind::mbarrier) == std::string("mbarrier"));
  CHECK(static_cast<std::size_t>(FaultKind::launch_limit) == kFaultKinds - 1);
  CHECK(fault_key(FaultKind::tensor) == std::string("tensor"));
}

}  // namespace arch_fault_test
