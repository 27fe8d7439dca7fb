// The rows of --dump ctas: order, columns, quoting.
#include "replay/cta_dump.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include <catch2/catch.hpp>

#include "replay/replay_bench.h"
#include "support/random.h"

namespace replay_cta_dump_test {

using namespace heddle;
using namespace heddle::test;
using replay::CtaDump;
using Cta = CtaListener::Cta;

namespace {

Cta cta(std::uint32_t task, std::uint64_t index, std::uint64_t launch, std::uint64_t sequence) {
  Cta c;
  c.task = task;
  c.index = c.order = index;
  c.launch = launch;
  c.sequence = sequence;
  c.cycle = launch + 5;
  c.first_instruction = launch + 7;
  return c;
}

void run_to(CtaDump& dump, Cta c, std::uint64_t end) {
  dump.cta_started(c);
  c.cycle = end;
  dump.cta_ended(c);
}

std::vector<std::string> lines_of(CtaDump& dump, const workload::Workload& workload,
                                  CtaDump::Names naming = CtaDump::Names::every_row) {
  const arch::Topology topology(arch::Shape::from_yaml(YAML::Load("[[4, 2], 4]"), {}));
  std::string out;
  const auto take = [&out](std::string_view text) {
    out += text;
    return true;
  };
  CHECK(dump.write(take, "gpu3", topology, workload, naming));
  std::vector<std::string> lines;
  std::istringstream in(out);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("a dumped CTA has its place in the grid, its place in the machine and its times", "[replay]") {
  workload::Workload w = empty_workload(1);
  w.ops = {kernel_op(0, 4, 100)};
  w.ops[0].kernel.name = "gemm";
  w.ops[0].kernel.subcontext = 63;
  Cta c = cta(0, 70'000, 1000, 9);
  c.x = 2'000'000'000;
  c.y = 65'534;
  c.z = 65'533;
  c.cga = 5'000'000'000;
  c.rank = 3;
  c.cga_size = 8;
  c.sm = 8;  // GPC 0 has the TPCs 0 1 and 4 5, and in its second CPC 8 9
  CtaDump dump;
  run_to(dump, c, 1234);
  CHECK(std::string(CtaDump::header()) ==
        "task,x,y,z,cga,rank,gpc,cpc,tpc,sm,launch,first_instruction,end,kernel,gpu,cga_size,subcontext,parent,depth,"
        "stay,saved");
  CHECK(lines_of(dump, w) ==
        std::vector<std::string>{"0,2000000000,65534,65533,5000000000,3,0,1,2,8,1000,1007,1234,gemm,gpu3,8,63,,0,0,0"});
}

TEST_CASE("dumped CTAs stand in launch order, whatever the order of their arrival", "[replay]") {
  workload::Workload w = empty_workload(1);
  w.ops = {kernel_op(0, 100, 100), kernel_op(0, 100, 100)};
  for (const std::uint64_t seed : seeds(20)) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<Cta> ctas;
    for (std::uint32_t i = 0; i < 200; ++i) ctas.push_back(cta(i % 2, i / 2, random.below(20), random.below(5)));
    CtaDump dump;
    for (std::size_t i = ctas.size(); i > 0; --i) {
      std::swap(ctas[i - 1], ctas[random.below(static_cast<std::uint32_t>(i))]);
      run_to(dump, ctas[i - 1], 500);
    }
    REQUIRE(dump.rows() == 200);
    std::vector<std::string> expected;
    for (std::uint64_t launch = 0; launch < 20; ++launch) {
      for (std::uint64_t sequence = 0; sequence < 5; ++sequence) {
        for (std::uint64_t order = 0; order < 100; ++order) {
          for (std::uint32_t task = 0; task < 2; ++task) {
            for (const Cta& c : ctas) {
              if (c.launch != launch || c.sequence != sequence || c.order != order || c.task != task) continue;
              expected.push_back(fmt::format("{},0,0,0,0,0,0,0,0,0,{},{},500,kernel of 100 CTAs,gpu3,1,0,,0,0,0", task,
                                             launch, launch + 7));
            }
          }
        }
      }
    }
    CHECK(lines_of(dump, w) == expected);
  }
}

TEST_CASE("packed rows come back as they were, in the order of the table", "[replay]") {
  HEDDLE_RANDOM(random);
  replay::CtaRows rows;
  std::vector<replay::CtaRow> all(150'000);  // more than two runs
  for (std::size_t i = 0; i < all.size(); ++i) {
    replay::CtaRow& row = all[i];
    const bool wild = random.one_in(10);
    row.launch = wild ? random.next() >> 1U : i / 100;
    row.sequence = i / 10;
    row.order = wild ? random.next() : i % 1000;
    row.first_instruction = wild ? random.next() : row.launch + random.below(300);
    row.end = random.one_in(20) ? replay::CtaRow::kNever : wild ? random.next() >> 1U : row.launch + random.below(9000);
    row.cga = wild ? random.next() : i % 1000;
    row.task = wild ? static_cast<std::uint32_t>(random.next()) : random.below(5);
    row.x = wild ? static_cast<std::uint32_t>(random.next()) : static_cast<std::uint32_t>(i % 1000);
    row.y = random.below(65'536);
    row.z = random.one_in(3) ? random.below(65'536) : 0;
    row.rank = random.below(16);
    row.cga_size = 1 + random.below(16);
    row.sm = random.below(2000);
    row.stay = random.one_in(10) ? random.below(100'000) : 0;
    row.saved = random.one_in(10);
  }
  std::vector<replay::CtaRow> told = all;
  random.shuffle(told);
  for (const replay::CtaRow& row : told) rows.add(row);
  CHECK(rows.size() == all.size());
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.key() < b.key(); });
  for (int round = 0; round < 2; ++round) {
    std::size_t at = 0;
    rows.for_each([&](const replay::CtaRow& row) {
      const replay::CtaRow& want = all.at(at++);
      REQUIRE(row.key() == want.key());
      REQUIRE((row.first_instruction == want.first_instruction && row.end == want.end && row.cga == want.cga));
      REQUIRE((row.x == want.x && row.y == want.y && row.z == want.z && row.rank == want.rank));
      REQUIRE((row.cga_size == want.cga_size && row.sm == want.sm && row.saved == want.saved));
      return true;
    });
    CHECK(at == all.size());
  }
  std::size_t seen = 0;
  rows.for_each([&seen](const replay::CtaRow&) { return ++seen < 10; });
  CHECK(seen == 10);
}

TEST_CASE("rows of a plain grid take little memory", "[replay]") {
  replay::CtaRows rows;
  constexpr std::size_t kRows = std::size_t{1} << 18U;
  for (std::size_t i = 0; i < kRows; ++i) {
    replay::CtaRow row;
    row.launch = 1000 + i / 3;
    row.sequence = i / 4;
    row.order = row.cga = i;
    row.x = static_cast<std::uint32_t>(i);
    row.sm = static_cast<std::uint32_t>(i * 37 % 132);
    row.first_instruction = row.launch + 90 + i % 7;
    row.end = row.launch + 3000 + i * 31 % 1000;
    rows.add(row);
  }
  CHECK(rows.bytes() <= 16 * kRows);
}

TEST_CASE("a table can have a kernel's name in the first row of its task alone", "[replay]") {
  workload::Workload w = empty_workload(1);
  w.ops = {kernel_op(0, 2, 1), kernel_op(0, 1, 1)};
  w.ops[0].kernel.name = "a";
  w.ops[1].kernel.name = "b";
  CtaDump dump;
  run_to(dump, cta(0, 0, 1, 0), 11);
  run_to(dump, cta(1, 0, 2, 1), 12);
  run_to(dump, cta(0, 1, 3, 2), 13);
  CHECK(lines_of(dump, w, CtaDump::Names::first_row) ==
        std::vector<std::string>{"0,0,0,0,0,0,0,0,0,0,1,8,11,a,gpu3,1,0,,0,0,0",
                                 "1,0,0,0,0,0,0,0,0,0,2,9,12,b,gpu3,1,0,,0,0,0",
                                 "0,0,0,0,0,0,0,0,0,0,3,10,13,,gpu3,1,0,,0,0,0"});
}

TEST_CASE("names that would break the table are quoted, and a CTA without end has none", "[replay]") {
  workload::Workload w = empty_workload(1);
  w.ops = {kernel_op(0, 1, 1), kernel_op(0, 1, 1), kernel_op(0, 1, 1)};
  w.ops[0].kernel.name = "void f<int, 3>(float*)";
  w.ops[1].kernel.name = "say \"hi\"";
  w.ops[2].kernel.name = "plain name; with blanks";
  CtaDump dump;
  run_to(dump, cta(0, 0, 1, 0), 11);
  run_to(dump, cta(1, 0, 2, 1), 12);
  dump.cta_started(cta(2, 0, 3, 2));
  CHECK(lines_of(dump, w) ==
        std::vector<std::string>{"0,0,0,0,0,0,0,0,0,0,1,8,11,\"void f<int, 3>(float*)\",gpu3,1,0,,0,0,0",
                                 "1,0,0,0,0,0,0,0,0,0,2,9,12,\"say \"\"hi\"\"\",gpu3,1,0,,0,0,0",
                                 "2,0,0,0,0,0,0,0,0,0,3,10,,plain name; with blanks,gpu3,1,0,,0,0,0"});
}

TEST_CASE("a CTA of a task that a program launched has the kernel, subcontext, parent and depth of that", "[replay]") {
  workload::Workload w = empty_workload(1);
  w.ops = {kernel_op(0, 1, 1)};
  CtaDump dump;
  constexpr std::uint32_t kChild = 1U << 30U;
  dump.task_launched({kChild, 0, "sort<int, 2>", 1, 7});
  dump.task_launched({kChild + 1, kChild, "leaf", 2, 7});
  run_to(dump, cta(kChild, 0, 1, 0), 11);
  run_to(dump, cta(kChild + 1, 0, 2, 0), 12);
  run_to(dump, cta(kChild + 2, 0, 3, 0), 13);  // nobody has told of it
  CHECK(lines_of(dump, w) ==
        std::vector<std::string>{"1073741824,0,0,0,0,0,0,0,0,0,1,8,11,\"sort<int, 2>\",gpu3,1,7,0,1,0,0",
                                 "1073741825,0,0,0,0,0,0,0,0,0,2,9,12,leaf,gpu3,1,7,1073741824,2,0,0",
                                 "1073741826,0,0,0,0,0,0,0,0,0,3,10,13,,gpu3,1,,,0,0,0"});
}

TEST_CASE("a CTA that is saved has a row for every stay, and ends in the last", "[replay][TSK-12]") {
  workload::Workload w = empty_workload(1);
  w.ops = {kernel_op(0, 2, 1)};
  w.ops[0].kernel.name = "k";
  CtaDump dump;
  Cta c = cta(0, 1, 100, 0);
  c.sm = 2;
  dump.cta_started(c);
  c.cycle = 150;
  dump.cta_saved(c);
  Cta again = cta(0, 1, 200, 7);  // it comes by a launch packet of its own
  again.sm = 5;
  dump.cta_restored(again);
  again.cycle = 260;
  dump.cta_saved(again);
  Cta third = cta(0, 1, 300, 8);
  third.sm = 5;
  dump.cta_restored(third);
  third.cycle = 333;
  dump.cta_ended(third);
  // It was shown as saved, and had never left.
  Cta stays = cta(0, 0, 400, 9);
  dump.cta_started(stays);
  stays.cycle = 440;
  dump.cta_saved(stays);
  dump.cta_restored(stays);
  stays.cycle = 470;
  dump.cta_ended(stays);
  CHECK(lines_of(dump, w) == std::vector<std::string>{"0,0,0,0,0,0,1,0,0,2,100,107,150,k,gpu3,1,0,,0,0,1",
                                                      "0,0,0,0,0,0,0,0,1,5,200,207,260,k,gpu3,1,0,,0,1,1",
                                                      "0,0,0,0,0,0,0,0,1,5,300,307,333,k,gpu3,1,0,,0,2,0",
                                                      "0,0,0,0,0,0,0,0,0,0,400,407,470,k,gpu3,1,0,,0,0,0"});
}

TEST_CASE("a CTA that starts twice or ends without a start is a broken invariant", "[replay]") {
  CtaDump dump;
  CHECK_THROWS_AS(dump.cta_ended(cta(0, 0, 1, 0)), CheckFailed);
  dump.cta_started(cta(0, 0, 1, 0));
  CHECK_THROWS_AS(dump.cta_started(cta(0, 0, 1, 0)), CheckFailed);
  CHECK_THROWS_AS(dump.cta_saved(cta(0, 1, 1, 0)), CheckFailed);
  CHECK_THROWS_AS(dump.cta_restored(cta(0, 1, 1, 0)), CheckFailed);
}

}  // namespace replay_cta_dump_test
