// Processes side by side, and what is told of their end.
#include "sweep/child_pool.h"

#include <signal.h>

#include "sweep/point_record.h"
#include "sweep/sweep_lab.h"

namespace child_pool_test {

using namespace heddle;
using namespace heddle::test;
using sweep::ChildEnd;
using sweep::ChildPool;
using sweep::PointState;

namespace {

std::vector<std::string> shell(const std::string& text) { return {"/bin/sh", "-c", text}; }

// Whether a process that is not a child of this one does something still; what has been killed may take a moment.
bool goes_on(const std::string& pid) {
  for (int tries = 0; tries < 200'000; ++tries) {
    const std::string stat = read_file("/proc/" + pid.substr(0, pid.find('\n')) + "/stat");
    const std::size_t name = stat.rfind(") ");
    if (name == std::string::npos || stat[name + 2] == 'Z' || stat[name + 2] == 'X') return false;
  }
  return true;
}

ChildEnd end_of(ChildPool& pool) {
  for (int i = 0; i < 600; ++i) {
    if (const auto end = pool.wait(0.1)) return *end;
  }
  FAIL("no child has ended within a minute");
  return {};
}

}  // namespace

TEST_CASE("children end with a status or by a signal, and their words are kept", "[sweep][SWP-04]") {
  const TempDir folder;
  ChildPool pool;
  pool.start(7, shell("echo out; echo err >&2; read x; exit 3"), folder.file("7"), 0);
  const ChildEnd status = end_of(pool);
  CHECK(status.id == 7);
  CHECK(status.status == 3);
  CHECK(status.by_signal == 0);
  CHECK(read_file(folder.file("7")) == "out\nerr\n");
  pool.start(8, shell("kill -SEGV $$"), folder.file("8"), 0);
  const ChildEnd signal = end_of(pool);
  CHECK(signal.status == -1);
  CHECK(signal.by_signal == SIGSEGV);
  CHECK(record_of(signal, "", 0).state == PointState::killed);
  CHECK(holds(record_of(signal, "", 0).reason, "killed by signal 11"));
  pool.start(9, {"/nowhere/at/all"}, folder.file("9"), 0);
  CHECK(end_of(pool).status == 127);
  CHECK(pool.running() == 0);
}

TEST_CASE("a child that takes too long is ended, with all that it has started", "[sweep][SWP-04]") {
  const TempDir folder;
  ChildPool pool;
  pool.start(1, shell("sleep 300 & echo $! >" + folder.file("pid") + "; wait"), folder.file("1"), 0.5);
  pool.start(2, shell("exit 0"), folder.file("2"), 300);
  CHECK(end_of(pool).id == 2);
  const ChildEnd end = end_of(pool);
  CHECK(end.over_limit);
  CHECK(record_of(end, "", 0.5).state == PointState::limit);
  CHECK(record_of(end, "", 0.5).reason == "stopped after 0.5 s of wall time (limit)");
  CHECK_FALSE(goes_on(read_file(folder.file("pid"))));
}

TEST_CASE("an interruption is told, and ends what runs with the pool", "[sweep][SWP-06]") {
  const TempDir folder;
  {
    ChildPool pool;
    pool.start(1, shell("echo $$ >" + folder.file("pid") + "; exec sleep 300"), folder.file("1"), 0);
    while (read_file(folder.file("pid")).empty()) CHECK_FALSE(pool.wait(0.01));
    CHECK_FALSE(pool.interrupted());
    raise(SIGINT);
    CHECK_FALSE(pool.wait(60));
    CHECK(pool.interrupted());
  }
  CHECK_FALSE(goes_on(read_file(folder.file("pid"))));
}

TEST_CASE("the reason of a bad end is the run's own word", "[sweep][SWP-04]") {
  const auto reason = [](int status, const std::string& output) {
    ChildEnd end;
    end.status = status;
    return record_of(end, output, 0).reason;
  };
  CHECK(reason(0, "heddle: partial\n").empty());
  CHECK(reason(2, "x\n\nheddle: a.yaml:3:1: kernel k: wrong\n") == "a.yaml:3:1: kernel k: wrong");
  CHECK(reason(1, "name\n  met:     a = 1\n  FAILED: b = 2, but is 3\n  FAILED: c = 2\npage: x\n") ==
        "FAILED: b = 2, but is 3");
  CHECK(reason(1, "name\n  FAULT:   gpu0, kernel k: address\npage: x\n") == "FAULT: gpu0, kernel k: address");
  CHECK(reason(1, "  note: 2 kernels were rejected\n\nsimulated in 1 s\n") == "note: 2 kernels were rejected");
  CHECK(reason(3, "heddle: no progress: nothing left; the chain of waits:\n  a waits\n") ==
        "no progress: nothing left; the chain of waits:");
  ChildEnd strange;
  strange.status = 127;
  CHECK(record_of(strange, "", 0).state == PointState::killed);
}

TEST_CASE("a record is read back as it was written", "[sweep][SWP-05]") {
  const TempDir folder;
  sweep::PointRecord record;
  record.digest = "abc";
  record.state = PointState::no_progress;
  record.exit = 3;
  record.reason = "because \"of\" <it>";
  record.seconds = 1.25;
  record.figures_digest = "def";
  record.figures["time"] = {12.5, "us", ""};
  record.figures["none"] = {std::nullopt, "", "why"};
  CHECK_FALSE(sweep::read_record(folder.file("")));
  write_record(record, folder.file(""));
  const auto back = sweep::read_record(folder.file(""));
  REQUIRE(back);
  CHECK(back->digest == "abc");
  CHECK(back->state == PointState::no_progress);
  CHECK(back->exit == 3);
  CHECK(back->reason == record.reason);
  CHECK(back->seconds == 1.25);
  CHECK(back->figures_digest == "def");
  CHECK(*back->figures.at("time").value == 12.5);
  CHECK(back->figures.at("time").unit == "us");
  CHECK_FALSE(back->figures.at("none").value);
  CHECK(back->figures.at("none").why == "why");
  folder.write("point.json", "{\"schema\": 1, \"state\"");
  CHECK_FALSE(sweep::read_record(folder.file("")));
}

TEST_CASE("inputs are the program, the command, the files and what these name", "[sweep][SWP-05]") {
  const TempDir folder;
  const std::string program = folder.write("program", "one");
  folder.write("data.bin", "1234");
  folder.write("x.yaml", "heddle: 1\nmemory: [{name: m, init: {file: data.bin}}]\n");
  const auto digest = [&](const std::string& values = "[1]") {
    const std::vector<sweep::Point> points =
        plan_of(sweep_of(folder, "sweep: 1\nrun: x.yaml\naxes: [{set: a.x, values: " + values + "}]\n"));
    return sweep::InputDigests(program).of(points[0]);
  };
  const std::string first = digest();
  CHECK(first == digest("[1, 2]"));
  CHECK(first != digest("[2]"));
  folder.write("data.bin", "1235");
  const std::string other_data = digest();
  CHECK(other_data != first);
  folder.write("x.yaml", "heddle: 1\nmemory: [{name: m, init: {file: data.bin}}] \n");
  const std::string other_file = digest();
  CHECK(other_file != other_data);
  folder.write("program", "two");
  CHECK(digest() != other_file);
  folder.write("program", "one");
  folder.write("data.bin", "1234");
  folder.write("x.yaml", "heddle: 1\nmemory: [{name: m, init: {file: data.bin}}]\n");
  CHECK(digest() == first);
}

}  // namespace child_pool_test
