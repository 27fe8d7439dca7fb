#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/program_options.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/results_folder.h"
#include "cli/run_outcome.h"
#include "gpu/machine_file.h"
#include "scenario/scenario.h"

namespace heddle::cli {
namespace {

namespace po = boost::program_options;
namespace fs = std::filesystem;

constexpr const char* kCudaUsage = R"(heddle cuda [options] PROGRAM [ARGUMENT]...

Runs a CUDA program as it is, on a simulated GPU in place of a real one: a library of Heddle's takes the place of the CUDA runtime.
The program is one that nvcc 13 has built with the shared runtime and PTX inside:

  nvcc -cudart shared -gencode arch=compute_90a,code=compute_90a -o app app.cu

Kernels, copies and fills go through the streams and copy engines of the machine; events tell simulated time. What CUDA
has and the library has not fails with cudaErrorNotSupported, and is named on stderr (docs/cuda.md). The exit status is
the program's, 128 and the number of the signal that ended it.

)";

constexpr const char* kLibrary = "libcudart.so.13";
constexpr int kSignalled = 128;

po::options_description cuda_options() {
  po::options_description options = described_options();
  options.add_options()("gpu", po::value<std::string>()->value_name("PRESET|FILE"),
                        "preset or file; default: h100-sxm")(
      "timing", po::value<std::string>()->value_name("at|fast|lt"), "how time is modelled; default: fast")(
      "set", po::value<std::vector<std::string>>()->value_name("K=V"), "a parameter of the machine")(
      "out", po::value<std::string>()->value_name("DIR"),
      "results: stats.json, kernels.csv, config.yaml and host.json; default: heddle-out/PROGRAM");
  return options;
}

// What stands before the program is ours.
std::size_t program_at(const std::vector<std::string>& arguments) {
  std::size_t at = 0;
  while (at < arguments.size() && arguments[at].size() > 1 && arguments[at][0] == '-') {
    if (arguments[at] == "--") return at + 1;
    const bool takes =
        arguments[at] == "--gpu" || arguments[at] == "--timing" || arguments[at] == "--set" || arguments[at] == "--out";
    at += takes ? 2 : 1;
  }
  return std::min(at, arguments.size());
}

// Beside the program of the build tree, or where it is installed.
fs::path library_folder() {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  for (const fs::path& folder : {here / "lib" / "heddle", here.parent_path() / HEDDLE_LIBDIR / "heddle"}) {
    if (fs::exists(folder / kLibrary)) return folder.lexically_normal();
  }
  throw InputError(
      fmt::format("{} is not there: this heddle was built without the headers of the CUDA toolkit 13", kLibrary),
      "build it where they are (cmake -DHEDDLE_CUDA_INCLUDE_DIR=/usr/local/cuda/include)");
}

// A binary that does not ask for the library would not notice it.
void check_program(const std::string& name) {
  const bool path = name.find('/') != std::string::npos;
  if (!path) return;  // the search path's; exec finds it
  std::ifstream file(name, std::ios::binary);
  if (!file) throw InputError({name, 0, 0}, "cannot be read", "heddle cuda runs a program: heddle cuda ./app");
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (bytes.compare(0, 4, "\177ELF") != 0 || bytes.find(kLibrary) != std::string::npos) return;
  throw InputError({name, 0, 0}, fmt::format("it does not ask for {}", kLibrary),
                   "build it with nvcc 13: nvcc -cudart shared -gencode arch=compute_90a,code=compute_90a");
}

// Throws InputError for what the machine does not know, before anything runs.
void check_machine(const CommandLine& line) {
  gpu::MachineChoice choice;
  choice.fallback = scenario::kDefaultPreset;
  const std::string machine = line.text("gpu").value_or("");
  const std::vector<std::string> presets = gpu::preset_names();
  if (std::find(presets.begin(), presets.end(), machine) != presets.end()) {
    choice.preset = machine;
  } else if (!machine.empty()) {
    choice.files.push_back(machine);
  }
  choice.settings = line.list("set");
  if (const auto timing = line.text("timing")) choice.settings.push_back("gpu.timing=" + *timing);
  (void)gpu::resolve(choice);
}

int run(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) {
    pointers.push_back(const_cast<char*>(word.c_str()));  // NOLINT(cppcoreguidelines-pro-type-const-cast): execvp
  }
  pointers.push_back(nullptr);
  std::cout.flush();
  const pid_t child = fork();
  if (child < 0) throw InputError(fmt::format("no process can be started: {}", std::strerror(errno)));
  if (child == 0) {
    execvp(pointers[0], pointers.data());
    std::cerr << fmt::format("heddle: {} cannot be run: {}\n", words[0], std::strerror(errno));
    _exit(kBadInput);
  }
  // An interrupt reaches both; the program decides.
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGINT, &ignore, &before);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  sigaction(SIGINT, &before, nullptr);
  return WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

int cuda_command(const std::vector<std::string>& arguments) {
  const po::options_description options = cuda_options();
  const std::size_t at = program_at(arguments);
  std::vector<std::string> ours(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(at));
  if (!ours.empty() && ours.back() == "--") ours.pop_back();
  const std::vector<std::string> words(arguments.begin() + static_cast<std::ptrdiff_t>(at), arguments.end());
  const CommandLine line("heddle cuda", options, ours);
  if (line.help()) {
    std::cout << kCudaUsage << options;
    return kSuccess;
  }
  if (words.empty()) line.bad("there is no program to run", "as in: heddle cuda ./app");
  check_program(words[0]);
  check_machine(line);
  const fs::path library = library_folder();
  std::string command = "heddle cuda";
  for (const std::string& word : arguments) command += " " + word;
  ResultsFolder folder(line.text("out"), fs::path(words[0]).filename().string(), command);
  folder.begin({});

  const char* before = std::getenv("LD_LIBRARY_PATH");
  const std::string search = library.string() + (before == nullptr ? "" : std::string(":") + before);
  std::string settings;
  for (const std::string& setting : line.list("set")) settings += setting + "\n";
  setenv("LD_LIBRARY_PATH", search.c_str(), 1);
  const std::string machine = line.text("gpu").value_or("");
  setenv("HEDDLE_GPU", (fs::exists(machine) ? fs::absolute(machine).string() : machine).c_str(), 1);
  setenv("HEDDLE_TIMING", line.text("timing").value_or("fast").c_str(), 1);
  setenv("HEDDLE_SET", settings.c_str(), 1);
  setenv("HEDDLE_OUT", fs::absolute(folder.path()).c_str(), 1);
  const int status = run(words);
  const bool results = fs::exists(folder.path() / "stats.json");
  nlohmann::json document = {{"state", results ? "ended" : "failed"},
                             {"files", nlohmann::json::array()},
                             {"version", HEDDLE_VERSION},
                             {"command", command},
                             {"exit_status", status}};
  write_text(document.dump(1) + "\n", folder.file("host.json"));
  if (!results) std::cerr << "heddle: the program has used no device, or has not ended in its own way: no results\n";
  return status;
}

}  // namespace heddle::cli
