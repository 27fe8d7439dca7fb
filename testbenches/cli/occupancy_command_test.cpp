// heddle occupancy: clusters that can be resident at once (CWD-24).
#include <numeric>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace cli_occupancy_command_test {

using namespace heddle::test;

namespace {

nlohmann::json json_of(const TempDir& dir, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "occupancy");
  arguments.emplace_back("--json");
  const Finished finished = heddle_in(dir, arguments);
  INFO(finished.err);
  REQUIRE(finished.status == 0);
  CHECK(finished.err.empty());
  return nlohmann::json::parse(finished.out);
}

void refused(const TempDir& dir, std::vector<std::string> arguments, const std::vector<std::string>& parts) {
  arguments.insert(arguments.begin(), "occupancy");
  const Finished finished = heddle_in(dir, arguments);
  CAPTURE(arguments);
  INFO(finished.err);
  CHECK(finished.status == 2);
  CHECK(finished.out.empty());
  CHECK(finished.err.rfind("heddle: ", 0) == 0);
  CHECK_FALSE(contains(finished.err, "internal error"));
  for (const std::string& part : parts) {
    CAPTURE(part);
    CHECK(contains(finished.err, part));
  }
}

const std::vector<std::string> kOnePerSm = {"--threads", "1024", "--registers", "64"};

std::vector<std::string> one_per_sm(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = kOnePerSm;
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace

TEST_CASE("one CTA per SM of an H100: 66 clusters of 2, 30 of 4, and every size from 1 to 16", "[cli][CWD-24]") {
  const TempDir dir;
  const nlohmann::json all = json_of(dir, kOnePerSm);
  REQUIRE(all.size() == 16);
  const std::vector<int> gpcs = {18, 18, 18, 18, 16, 16, 14, 14};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const nlohmann::json& row = all[i];
    CAPTURE(row);
    const int size = static_cast<int>(i) + 1;
    CHECK(row.at("cluster") == size);
    CHECK(row.at("ctas_per_sm") == 1);
    // One CTA on an SM: a GPC holds what its SMs divide into, and the rest stays unused.
    int active = 0;
    std::vector<int> unused;
    for (const int sms : gpcs) {
      active += sms / size;
      unused.push_back(sms % size);
    }
    CHECK(row.at("active") == active);
    CHECK(row.at("unused_sms") == unused);
    CHECK(row.at("ctas") == active * size);
  }
  CHECK(all[1].at("active") == 66);
  CHECK(all[3].at("active") == 30);
  const nlohmann::json some = json_of(dir, one_per_sm({"--cluster", "2,4, 8,16"}));
  CHECK(some == nlohmann::json({all[1], all[3], all[7], all[15]}));
}

TEST_CASE("the JSON of an occupancy query begins every object with cluster and active", "[cli][CWD-24]") {
  const TempDir dir;
  std::vector<std::string> arguments = one_per_sm({"--cluster", "2", "--json", "--gpu", "h100-sxm"});
  arguments.insert(arguments.begin(), "occupancy");
  const Finished finished = heddle_in(dir, arguments);
  CHECK(finished.out.rfind(R"([{"cluster":2,"active":66,"ctas_per_sm":1,"unused_sms":[0,0,0,0,0,0,0,0])", 0) == 0);
  CHECK(finished.out.substr(finished.out.size() - 3) == "}]\n");
}

TEST_CASE("an occupancy query knows the mode, the machine and the shape of clusters", "[cli][CWD-24][CWD-15][CWD-16]") {
  const TempDir dir;
  const std::vector<std::string> small = {"--threads", "1024", "--registers", "32", "--gpu", "small", "--cluster"};
  const auto asked = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = small;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return json_of(dir, arguments).at(0);
  };
  // Two CTAs on each of 6 and 4 SMs. Multicast: 8 CTAs of one cluster would need 8 SMs.
  const nlohmann::json spread = asked({"8"});
  CHECK(spread.at("active") == 0);
  CHECK(contains(spread.at("reason"), "GPC"));
  CHECK(asked({"8", "--mode", "load_balancing"}).at("active") == 2);
  CHECK(asked({"6"}).at("active") == 2);
  CHECK(asked({"2x2x1"}).at("active") == asked({"4"}).at("active"));
  CHECK(asked({"2x2x1"}).at("extents") == std::vector<int>{2, 2, 1});
  CHECK(asked({"6", "--set", "gpu.shape=[6, 6, 5]"}).at("active") == 4);
  CHECK(json_of(dir, {"--threads", "128", "--gpu", "small", "--cluster", "1", "--set", "gpu.gpc.cga_ids=200", "--set",
                      "gpu.gpc.cga_barriers=200"})
            .at(0)
            .at("active") == 160);
  // Shared memory limits too, with a unit or without.
  CHECK(asked({"1", "--shared", "200 KiB"}).at("active") == 10);
  CHECK(asked({"1", "--shared", "204800"}).at("active") == 10);
  CHECK(asked({"1", "--shared", "0"}).at("active") == 20);
}

TEST_CASE("the occupancy table says what was assumed, what stays unused, and why none fits", "[cli][CWD-24]") {
  const TempDir dir;
  const Finished plain = heddle_in(dir, {"occupancy", "--threads", "256"});
  CHECK(plain.status == 0);
  for (const char* part : {"h100-sxm", "18 18 18 18 16 16 14 14", "256 threads", "registers not given",
                           "no shared memory", "8 on an SM, limited by"}) {
    CAPTURE(part);
    CHECK(contains(plain.out, part));
  }
  std::vector<std::string> arguments = one_per_sm({"--cluster", "4,16", "--set", "gpu.shape=[14, 14]"});
  arguments.insert(arguments.begin(), "occupancy");
  const Finished none = heddle_in(dir, arguments);
  INFO(none.out);
  CHECK(none.status == 0);
  CHECK(contains(none.out, "2 2"));  // of 14 SMs, with clusters of 4
  CHECK(contains(none.out, "GPC"));  // why no cluster of 16 fits
  CHECK(contains(none.out, "14"));
}

TEST_CASE("the kernels of a file are asked about one by one", "[cli][CWD-24]") {
  const TempDir dir;
  dir.write("s.yaml", R"(heddle: 1
gpu: small
kernels:
  - {name: big, grid: 8, block: 1024, registers: 64, cycles: 1000}
  - {name: little, grid: 8, block: 128, cycles: 1000}
submit:
  - {kernel: big, stream: a, repeat: 3}
  - {kernel: little, stream: a}
)");
  const nlohmann::json kernels = json_of(dir, {"s.yaml", "--cluster", "1,2"});
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].at("kernel") == "big");
  CHECK(kernels[0].at("gpu") == "gpu0");
  CHECK(kernels[0].at("clusters").at(0).at("active") == 10);
  CHECK(kernels[0].at("clusters").at(1).at("active") == 5);
  CHECK(kernels[1].at("kernel") == "little");
  CHECK(kernels[1].at("clusters").at(0).at("ctas_per_sm") == 16);
  CHECK(kernels[1].at("clusters").at(0).at("active") == 160);
  CHECK_FALSE(kernels[1].at("clusters").at(0).contains("reason"));
  // GPCs with ids for 32 clusters each hold no more, whatever their SMs could.
  const nlohmann::json few =
      json_of(dir, {"s.yaml", "--cluster", "1", "--set", "gpu.gpc.cga_ids=32"}).at(1).at("clusters").at(0);
  CHECK(few.at("active") == 64);
  CHECK(contains(few.at("reason"), "gpu.gpc.cga_ids"));
  // Another machine than the file's.
  CHECK(json_of(dir, {"s.yaml", "--gpu", "h100-sxm"}).at(0).at("clusters").at(1).at("active") == 66);
  const Finished text = heddle_in(dir, {"occupancy", "s.yaml"});
  CHECK(contains(text.out, "kernel 'big'"));
  CHECK(contains(text.out, "kernel 'little'"));
  dir.write("t.json", hand_made_trace());
  const nlohmann::json recorded = json_of(dir, {"t.json", "--cluster", "1"});
  CHECK(recorded.size() == 3);
  CHECK(recorded.at(0).at("kernel") == "kernel_0");
  CHECK_FALSE(recorded.at(0).at("clusters").at(0).contains("recorded"));
}

TEST_CASE("an occupancy query that makes no sense is refused", "[cli][CWD-24][CWD-25]") {
  const TempDir dir;
  dir.write("s.yaml",
            "heddle: 1\nkernels:\n  - {name: k, grid: 1, block: 32, cycles: 1}\nsubmit:\n"
            "  - {kernel: k, stream: a}\n");
  refused(dir, {}, {"--threads"});
  refused(dir, {"--registers", "32"}, {"--threads"});
  refused(dir, {"--threads", "0"}, {"SM", "block"});
  refused(dir, {"--threads", "many"}, {"--threads", "many"});
  refused(dir, {"--threads", "1025"}, {"SM", "threads", "1025", "1024", "h100-sxm"});
  refused(dir, {"--threads", "1024", "--registers", "128"}, {"SM", "registers", "131072", "65536"});
  refused(dir, {"--threads", "32", "--registers", "256"}, {"SM", "registers", "256", "255"});
  refused(dir, {"--threads", "32", "--shared", "300 KiB"}, {"SM", "shared memory", "307200"});
  refused(dir, {"--threads", "32", "--shared", "3 us"}, {"--shared", "us"});
  refused(dir, {"--threads", "32", "--cluster", "17"}, {"GPC_CGA", "17", "16", "gpu.cwd.max_gpc_cga"});
  refused(dir, {"--threads", "32", "--cluster", "4x4x2"}, {"GPC_CGA", "32", "16"});
  refused(dir, {"--threads", "32", "--cluster", "16", "--set", "gpu.cwd.max_gpc_cga=8"}, {"16", "8"});
  refused(dir, {"--threads", "32", "--cluster", "0"}, {"--cluster", "0"});
  refused(dir, {"--threads", "32", "--cluster", "2x0x1"}, {"--cluster", "2x0x1"});
  for (const char* size : {"two", "-1", "2,", ",2", "", "2x", "x2", "1x1x1x1", "2.5", "99999999999"}) {
    refused(dir, {"--threads", "32", "--cluster", size}, {"--cluster"});
  }
  refused(dir, {"--threads", "32", "--mode", "fast"}, {"--mode fast", "multicast or load_balancing"});
  refused(dir, {"--threads", "32", "--gpu", "h100-smx"}, {"did you mean h100-sxm"});
  refused(dir, {"--threads", "32", "--gpu", "small", "--gpu", "a100"}, {"--gpu"});
  refused(dir, {"--treads", "32"}, {"--treads", "did you mean --threads"});
  refused(dir, {"--threads", "32", "--device", "0"}, {"--device"});
  refused(dir, {"s.yaml", "--threads", "32"}, {"--threads", "s.yaml"});
  refused(dir, {"s.yaml", "s.yaml"}, {"one FILE"});
  refused(dir, {"absent.yaml"}, {"absent.yaml"});
}

}  // namespace cli_occupancy_command_test
