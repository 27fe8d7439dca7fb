// Which rules are checked again of a difference from what has been checked before (PKT-05, PKT-06): those that look at
// one of its fields, and no others. One dispatch for each rule that breaks it alone.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "packet/packet_check.h"
#include "support/list_program.h"

namespace packet_check_rules_test {

using namespace heddle::arch;
using namespace heddle::packet;

namespace {

using Fields = std::vector<std::uint32_t>;  // numbers of fields (PKT-06); 13: registers, 14: program (PKT-13)

// Asked whether kernels fit, it says the same of all, and counts.
struct Counting final : FitCheck {
  mutable std::uint32_t asked = 0;
  std::string why;
  std::string why_never_fits(const KernelShape&) const override {
    ++asked;
    return why;
  }
};

struct Dispatch {
  DispatchFields fields;
  KernelObject object;
  SmLimits limits;
};

Dispatch good() {
  Dispatch made;
  made.fields.setup = 3;
  made.fields.workgroup = {16, 4, 2};
  made.fields.grid = {160, 40, 6};
  made.fields.group_segment = 1024;
  made.fields.kernel_object = 0x8000;
  made.object.registers_per_thread = 32;
  made.object.duration = {10, 10};
  return made;
}

bool has(const Fields& fields, std::uint32_t field) {
  return std::find(fields.begin(), fields.end(), field) != fields.end();
}

}  // namespace

TEST_CASE("of a difference the rules for its fields are checked, and no others", "[packet][PKT-05][PKT-09]") {
  struct Rule {
    const char* name;
    std::function<void(Dispatch&)> broken;
    Fields fields;
    Reason reason;
  };
  const std::vector<Rule> rules{
      {"scopes", [](Dispatch& d) { d.fields.synch_scopes = 0x06; }, {0}, Reason::fence_scope},
      {"bits of setup", [](Dispatch& d) { d.fields.setup = 7; }, {1}, Reason::setup_bits},
      {"an empty workgroup", [](Dispatch& d) { d.fields.workgroup[0] = 0; }, {1, 2, 5}, Reason::empty_workgroup},
      {"an empty workgroup in y", [](Dispatch& d) { d.fields.workgroup[1] = 0; }, {1, 3, 6}, Reason::empty_workgroup},
      {"an unused dimension",
       [](Dispatch& d) {
         d.fields.setup = 2;
         d.fields.workgroup[2] = 1;
       },
       {1, 4, 7},
       Reason::unused_dimension},
      {"a small grid", [](Dispatch& d) { d.fields.grid[1] = 3; }, {1, 3, 6}, Reason::small_grid},
      {"a large workgroup",
       [](Dispatch& d) {
         d.fields.workgroup = {160, 40, 2};
       },
       {2, 3, 4},
       Reason::large_workgroup},
      {"a large grid in x",
       [](Dispatch& d) {
         d.fields.workgroup = {1, 1, 1};
         d.fields.grid[0] = 0x8000'0000;
       },
       {2, 5},
       Reason::large_grid},
      {"a large grid in z", [](Dispatch& d) { d.fields.grid[2] = 131'071; }, {4, 7}, Reason::large_grid},
      {"kernarg", [](Dispatch& d) { d.fields.kernarg = 8; }, {11}, Reason::kernarg_alignment},
      {"kernarg of the host",
       [](Dispatch& d) { d.fields.kernarg = std::uint64_t{1} << 63; },
       {11},
       Reason::kernarg_host},
      {"the object", [](Dispatch& d) { d.fields.kernel_object += 64; }, {10}, Reason::object_address},
      {"no object", [](Dispatch& d) { d.fields.kernel_object = 0; }, {10}, Reason::object_address},
      {"the signal", [](Dispatch& d) { d.fields.completion_signal = 8; }, {12}, Reason::signal_alignment},
      {"group segment", [](Dispatch& d) { d.limits.max_shared_per_cta = 1023; }, {9}, Reason::group_segment},
      {"private segment",
       [](Dispatch& d) {
         d.fields.private_segment = 16;
         d.limits.max_local_per_thread = 15;
       },
       {8},
       Reason::private_segment},
  };
  for (const Rule& rule : rules) {
    CAPTURE(rule.name);
    Dispatch dispatch = good();
    REQUIRE(check(dispatch.fields, dispatch.limits).ok());
    rule.broken(dispatch);
    CHECK(check(dispatch.fields, dispatch.limits).reason == rule.reason);
    CHECK(check(dispatch.fields, dispatch.limits, 0).ok());
    for (std::uint32_t field = 0; field < 15; ++field) {
      CAPTURE(field);
      CHECK(check(dispatch.fields, dispatch.limits, 1U << field).reason ==
            (has(rule.fields, field) ? rule.reason : Reason::none));
    }
  }
}

TEST_CASE("of a difference the rules for kernel and object are checked that look at its fields",
          "[packet][PKT-05][PKT-09][PKT-13]") {
  struct Rule {
    const char* name;
    std::function<void(Dispatch&)> broken;
    Fields fields;
    Reason reason;
    const char* misfit = "";  // why the machine can never hold it
  };
  const Fields fit{2, 3, 4, 5, 6, 7, 8, 9, 10, 13};
  const std::vector<Rule> rules{
      {"threads limit", [](Dispatch& d) { d.object.threads_limit = 127; }, {2, 3, 4, 10}, Reason::threads_limit},
      {"registers of a thread",
       [](Dispatch& d) { d.object.registers_per_thread = 256; },
       {2, 3, 4, 9, 10, 13},
       Reason::thread_registers},
      {"warps", [](Dispatch& d) { d.limits.warps = 3; }, {2, 3, 4, 9, 10, 13}, Reason::sm_warps},
      {"clusters",
       [](Dispatch& d) {
         d.object.cluster.of(CgaLevel::gpc) = {3, 1, 1};
       },
       {2, 3, 4, 5, 6, 7, 10},
       Reason::cluster_grid},
      {"partial clusters",
       [](Dispatch& d) {
         d.object.cluster.of(CgaLevel::gpc) = {2, 1, 1};
         d.fields.grid[0] = 159;
       },
       {2, 3, 4, 5, 6, 7, 10},
       Reason::partial_clusters},
      {"program", [](Dispatch& d) { d.object.program = 77; }, {10, 14}, Reason::object_program},
      {"local memory",
       [](Dispatch& d) {
         d.fields.private_segment = 16;
         d.limits.max_local_per_thread = 15;
       },
       {2, 3, 4, 8, 9, 10, 13},
       Reason::sm_other},
      {"room for clusters",
       [](Dispatch& d) {
         d.object.cluster.of(CgaLevel::gpc) = {2, 1, 1};
       },
       fit, Reason::cluster_room, "none"},
      {"room for all", [](Dispatch& d) { d.object.cooperative = true; }, fit, Reason::cooperative_room, "none"},
  };
  for (const Rule& rule : rules) {
    CAPTURE(rule.name);
    Counting machine;
    CodeStore store;
    const BroughtCode codes(store, nullptr, nullptr);
    KernelShape shape;
    Dispatch dispatch = good();
    {
      KernelValidator validator(dispatch.limits, codes, machine);
      REQUIRE(validator.validate(dispatch.fields, dispatch.object, 0, shape).ok());
    }
    rule.broken(dispatch);
    machine.why = rule.misfit;
    KernelValidator validator(dispatch.limits, codes, machine);
    CHECK(validator.validate(dispatch.fields, dispatch.object, 0, shape).reason == rule.reason);
    CHECK(validator.validate(dispatch.fields, dispatch.object, 0, shape, 0).ok());
    for (std::uint32_t field = 0; field < 15; ++field) {
      CAPTURE(field);
      const HsaResult result = validator.validate(dispatch.fields, dispatch.object, 0, shape, 1U << field);
      if (field == 8 && !has(rule.fields, field)) {  // local memory: whether an SM can hold it, whatever that takes
        CHECK((result.ok() || result.reason == Reason::sm_other));
        continue;
      }
      CHECK(result.reason == (has(rule.fields, field) ? rule.reason : Reason::none));
    }
  }
  Dispatch dispatch = good();
  dispatch.object.static_shared = 1025;
  for (const std::uint32_t field : {9, 10}) {
    CHECK(check(dispatch.fields, dispatch.object, dispatch.limits, 1U << field).reason == Reason::small_group_segment);
  }
}

// A packet by itself: scopes; bits of setup; for each dimension its sizes; the work-items of a workgroup; for each
// dimension its workgroups; kernarg, object, signal, group and private segment. With its object: threads, shared
// memory, what an SM has, clusters, program, what an SM and what the machine can never hold.
TEST_CASE("what is counted as checked are the rules that look at the fields", "[packet][PKT-08]") {
  const std::vector<std::uint32_t> of_fields{1, 4, 3, 3, 3, 2, 2, 2, 1, 1, 1, 1, 1, 0, 0};
  const std::vector<std::uint32_t> with_object{0, 0, 5, 5, 5, 2, 2, 2, 2, 4, 7, 0, 0, 3, 1};
  for (std::uint32_t field = 0; field < 15; ++field) {
    CAPTURE(field);
    CHECK(checks_of_fields(1U << field) == of_fields[field]);
    CHECK(checks_with_object(1U << field) == with_object[field]);
  }
  CHECK(checks_of_fields(0) == 0);
  CHECK(checks_with_object(0) == 0);
  CHECK(checks_of_fields(kAllFields) == 14);
  CHECK(checks_with_object(kAllFields) == 7);
  // Sizes of one dimension are one rule, whichever of its fields have changed.
  CHECK(checks_of_fields(1U << 2 | 1U << 5) == 3);
  CHECK(checks_of_fields(1U << 1 | 1U << 2 | 1U << 3 | 1U << 4) == 1 + 3 + 1 + 3);
}

TEST_CASE("a number names no program that software has brought", "[packet][PKT-09][PKT-13][HST-07]") {
  class OneProgram final : public CodeDecoder {
   public:
    DecodedCode decode(const std::vector<std::uint8_t>&) const override {
      auto program = std::make_shared<heddle::test::ListProgram>(4);
      program->exit();
      return {program, {}, {}, 0};
    }
  };
  Counting machine;
  CodeStore store;
  const auto decoder = std::make_shared<OneProgram>();
  BroughtCode codes(store, decoder, [](const WarpProgram&) { return std::string(); });
  KernelValidator validator(SmLimits(), codes, machine);
  Dispatch brought = good();
  brought.object.code = {4096, 3};
  REQUIRE(codes.resolve({1, 2, 3}, 0, brought.object).ok());
  Dispatch by_number = good();
  by_number.object.program = brought.object.program;
  Dispatch loaded = good();
  loaded.object.program = store.add(decoder->decode({}).program, {});
  KernelShape shape;
  for (const FieldSet changed : {kAllFields | kRegisters | kProgram, kObjectField, kProgram}) {
    CHECK(validator.validate(brought.fields, brought.object, 0, shape, changed).ok());
    CHECK(validator.validate(loaded.fields, loaded.object, 0, shape, changed).ok());
    const HsaResult refused = validator.validate(by_number.fields, by_number.object, 0, shape, changed);
    CHECK(refused.reason == Reason::object_program);
    CHECK(refused.status == HsaStatus::invalid_code_object);
  }
}

// CWD-25: the distributor is asked once for a kernel that comes again and again, and for every other one.
TEST_CASE("kernels that differ in anything that decides whether they fit are asked for", "[packet][PKT-09][CWD-25]") {
  using Change = std::function<void(Dispatch&)>;
  const std::vector<Change> changes{
      [](Dispatch&) {},
      [](Dispatch& d) { d.fields.grid[0] = 320; },
      [](Dispatch& d) { d.fields.grid[2] = 12; },
      [](Dispatch& d) { d.fields.workgroup[1] = 2, d.fields.grid[1] = 20; },
      [](Dispatch& d) { d.object.registers_per_thread = 33; },
      [](Dispatch& d) { d.fields.group_segment = 2048; },
      [](Dispatch& d) { d.fields.private_segment = 16; },
      [](Dispatch& d) { d.object.cooperative = true; },
      [](Dispatch& d) {
        d.object.cluster.of(CgaLevel::gpc) = {1, 2, 1};
      },
      [](Dispatch& d) {
        d.object.cluster.fallback[0] = {1, 1, 1};
      },
      [](Dispatch& d) { d.object.cluster.mode = CgaMode::multicast; },
      [](Dispatch& d) { d.object.cluster.linear_memory = true; },
  };
  Counting machine;
  CodeStore store;
  const BroughtCode codes(store, nullptr, nullptr);
  KernelValidator validator(SmLimits(), codes, machine);
  const auto validate = [&](const Change& change) {
    Dispatch dispatch = good();
    dispatch.object.cluster.of(CgaLevel::gpc) = {2, 1, 1};
    change(dispatch);
    KernelShape shape;
    REQUIRE(validator.validate(dispatch.fields, dispatch.object, 3, shape).ok());
    CHECK(shape.subcontext == 3);
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    CAPTURE(i);
    validate(changes[i]);
    CHECK(machine.asked == i + 1);
    for (std::size_t j = 0; j <= i; ++j) validate(changes[j]);
    CHECK(machine.asked == i + 1);
  }
  // What does not decide: name, arguments, duration.
  const auto asked = machine.asked;
  validate([](Dispatch& d) { d.object.name = "another", d.fields.kernarg = 16, d.object.duration = {20, 20}; });
  CHECK(machine.asked == asked);
  // The last sixteen answers are kept.
  for (std::uint32_t grid = 2; grid < 20; ++grid) validate([grid](Dispatch& d) { d.fields.grid[0] = 32 * (4 + grid); });
  CHECK(machine.asked > asked + 15);
  const auto before = machine.asked;
  validate([](Dispatch& d) { d.fields.grid[0] = 32 * 23; });
  validate([](Dispatch& d) { d.fields.grid[0] = 32 * 8; });
  CHECK(machine.asked == before);
  validate(changes[0]);
  CHECK(machine.asked == before + 1);
  validator.reset();
  validate(changes[0]);
  CHECK(machine.asked == before + 2);
}

}  // namespace packet_check_rules_test
