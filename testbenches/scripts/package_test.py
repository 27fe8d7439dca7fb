#!/usr/bin/env python3
"""What is installed is enough: pages of docs/howto for those who have no source tree are followed as they are written,
from an install prefix, with the source and the build tree out of reach.

HEDDLE_BUILD names the build folder, in which everything has been built. A page is followed like this: a block behind a
paragraph that begins with `NAME` is the file NAME, blocks of `sh` are carried out in their order, and blocks of `text` are
what the program prints. Where user namespaces are allowed, an empty folder lies over the source tree meanwhile.
"""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("HEDDLE_BUILD", ROOT / "build/release"))
EMBED = (ROOT / "docs/howto/embed.md").read_text(encoding="utf-8")
DRIVER = (ROOT / "docs/howto/driver.md").read_text(encoding="utf-8")
KERNELS = (ROOT / "docs/kernels.md").read_text(encoding="utf-8")
# Headers that a public one may include besides the standard library's and those below heddle/.
OTHERS = ("systemc", "tlm", "tlm_utils/simple_initiator_socket.h", "tlm_utils/tlm_quantumkeeper.h")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HIDING = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
          'mount -t tmpfs none "$0" && exec "$@"', str(ROOT)]

# A program with the archive in place of the shared library: what a debugger sees of bar0, as a file.
DUMP = """
#include <fstream>
#include <heddle/gpu.h>
#include <heddle/heddle_driver.h>

struct Probe : sc_core::sc_module, tlm::tlm_bw_transport_if<> {
  tlm::tlm_initiator_socket<> socket{"socket"};
  explicit Probe(sc_core::sc_module_name name) : sc_module(name) { socket.bind(*this); }
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload&, tlm::tlm_phase&, sc_core::sc_time&) override {
    return tlm::TLM_ACCEPTED;
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}
};

int sc_main(int, char** arguments) {
  heddle::GpuOptions options;
  options.preset = "small";
  heddle::Gpu gpu("gpu0", options);
  Probe probe("probe");
  probe.socket.bind(gpu.bar0);
  std::vector<char> bytes(64 << 10);
  sc_core::sc_start(sc_core::SC_ZERO_TIME);
  tlm::tlm_generic_payload payload;
  payload.set_read();
  payload.set_data_ptr(reinterpret_cast<unsigned char*>(bytes.data()));
  payload.set_data_length(static_cast<unsigned>(bytes.size()));
  payload.set_streaming_width(static_cast<unsigned>(bytes.size()));
  if (probe.socket->transport_dbg(payload) != bytes.size()) return 1;
  if (gpu.read_register("MAGIC") != HEDDLE_DEVICE_MAGIC) return 1;
  std::ofstream(arguments[1], std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return 0;
}
"""
DUMP_CMAKE = """
cmake_minimum_required(VERSION 3.16)
project(dump LANGUAGES CXX)
find_package(heddle 0.1 REQUIRED COMPONENTS static)
add_executable(dump dump.cpp)
target_link_libraries(dump PRIVATE heddle::gpu_static)
"""
# The program of docs/kernels.md in front of a device: arguments, kernels and data in device memory, queue and signal in RAM.
LAUNCH = """
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>
#include <heddle/gpu.h>
#include <heddle/tlm_bus.h>
#include <tlm_utils/simple_target_socket.h>

extern "C" int scale(heddle_device* device, heddle_queue* queue, const void* file, size_t bytes, uint64_t memory,
                     uint64_t data, uint64_t factor, uint64_t signal);

struct Host : sc_core::sc_module {
  heddle::TlmBus tlm{"tlm"};
  tlm_utils::simple_target_socket<Host> from_cpu{"from_cpu"}, from_gpu{"from_gpu"};
  std::vector<char> ram = std::vector<char>(64 << 10), file;
  int result = -1;

  Host(sc_core::sc_module_name name, std::vector<char> kernels) : sc_module(name), file(std::move(kernels)) {
    from_cpu.register_b_transport(this, &Host::access);
    from_gpu.register_b_transport(this, &Host::access);
    SC_HAS_PROCESS(Host);
    SC_THREAD(software);
  }
  void access(tlm::tlm_generic_payload& p, sc_core::sc_time&) {
    p.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    if (p.get_address() + p.get_data_length() > ram.size()) return;
    char* at = ram.data() + p.get_address();
    if (p.is_read()) std::copy_n(at, p.get_data_length(), p.get_data_ptr());
    if (p.is_write()) std::copy_n(p.get_data_ptr(), p.get_data_length(), at);
    p.set_response_status(tlm::TLM_OK_RESPONSE);
  }
  void software() {
    const heddle_bus bus = tlm.bus();
    heddle_device device;
    heddle_queue queue;
    heddle_queue_setup setup{};
    setup.ring = HEDDLE_HOST_WINDOW + 0x1000;
    setup.size = 16;
    setup.read_index = HEDDLE_HOST_WINDOW + 0x100;
    setup.write_index = HEDDLE_HOST_WINDOW + 0x140;
    if (heddle_device_open(&device, &bus) == HEDDLE_OK && heddle_queue_create(&queue, &device, 0, &setup, 1000) == HEDDLE_OK) {
      result = scale(&device, &queue, file.data(), file.size(), 0x2000, 0x10000, 3, HEDDLE_HOST_WINDOW + 0x200);
    }
    sc_core::sc_stop();
  }
};

int sc_main(int, char** arguments) {
  std::ifstream kernels(arguments[1], std::ios::binary);
  heddle::GpuOptions options;
  options.preset = "small";
  heddle::Gpu gpu("gpu0", options);
  Host host("host", {std::istreambuf_iterator<char>(kernels), {}});
  host.tlm.registers.bind(gpu.bar0);
  host.tlm.memory.bind(gpu.bar1);
  host.tlm.host.bind(host.from_cpu);
  gpu.dma.bind(host.from_gpu);
  std::vector<std::uint32_t> data(256);
  for (std::uint32_t i = 0; i < 256; ++i) data[i] = i;
  gpu.write_memory(0x10000, data.data(), 1024);
  sc_core::sc_start();
  gpu.read_memory(0x10000, data.data(), 1024);
  int right = 0;
  for (std::uint32_t i = 0; i < 256; ++i) right += data[i] == 3 * i;
  std::cout << "result " << host.result << ", " << right << " right\\n";
  return 0;
}
"""
# Without HEDDLE_PROGRAM, and with no program on the PATH.
PYTHON = """
import heddle
print(heddle.program())
run = heddle.run("kernels.yaml", gpu="small", timing="lt")
print(run.ok, run.time_us > 0)
"""
# A simulator that loads a platform as a shared object.
LOADER = """
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
  void* platform = dlopen("./platform.so", RTLD_NOW | RTLD_LOCAL);
  if (platform == NULL) return fprintf(stderr, "%s\\n", dlerror()), 1;
  int (*start)(int, char**) = (int (*)(int, char**))dlsym(platform, "sc_main");
  if (start == NULL) return fprintf(stderr, "%s\\n", dlerror()), 1;
  char name[] = "platform", *arguments[] = {name, NULL};
  return start(1, arguments);
}
"""


def blocks(page, language):
    return [code for kind, code in BLOCK.findall(page) if kind == language]


def named_files(page):
    """The files that a page shows, by name."""
    found = {}
    for match in BLOCK.finditer(page):
        before = page[:match.start()].rstrip().split("\n\n")[-1]
        name = re.match(r"`([\w.-]+\.\w+)`", before)
        if name:
            found[name[1]] = match[2]
    return found


def can_hide():
    return subprocess.run([*HIDING, "true"], capture_output=True, check=False).returncode == 0


class InstalledTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = Path(tempfile.mkdtemp(prefix="heddle-package-"))
        cls.addClassCleanup(shutil.rmtree, cls.home, ignore_errors=True)
        cls.prefix = cls.home / "heddle"
        done = subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.prefix], capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        cls.hide = HIDING if can_hide() else []
        # As the page has them, where its home is ours.
        cls.exports = next(code for code in blocks(EMBED, "") if code.startswith("export "))

    def folder(self, name, files):
        folder = self.home / name
        folder.mkdir()
        for path, text in files.items():
            (folder / path).write_text(text, encoding="utf-8")
        return folder

    def sh(self, folder, commands, status=0):
        """What the commands print, the source tree out of reach."""
        clean = {"HOME": str(self.home), "PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"}
        done = subprocess.run([*self.hide, "bash", "-c", f"set -e\n{self.exports}\n{commands}"], cwd=folder, env=clean,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, f"{commands}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def test_no_installed_file_knows_where_it_was_built(self):
        files = [path for path in self.prefix.rglob("*") if path.is_file() and not path.is_symlink()]
        self.assertGreater(len(files), 15)
        places = [str(place).encode() for place in {ROOT, BUILD}]
        self.assertEqual([str(path) for path in files if any(place in path.read_bytes() for place in places)], [])

    def test_public_headers_include_little(self):
        found = set()
        for header in (self.prefix / "include").rglob("*"):
            self.assertTrue(header.is_dir() or header.parent.name == "heddle", header)
            if header.is_file():
                found |= set(re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', header.read_text("utf-8"), re.M))
        others = {name for name in found if ("." in name or "/" in name or name in OTHERS)
                  and name not in ("stdbool.h", "stddef.h", "stdint.h")
                  and not (self.prefix / "include" / name).is_file()
                  and not (self.prefix / "include/heddle" / name).is_file()}
        self.assertEqual(others, set(OTHERS))

    def test_shared_libraries_show_what_headers_declare(self):
        for name, pattern in (("libheddle.so", r"(?:(?:vtable|typeinfo|typeinfo name|VTT) for |(?:non-)?virtual thunk to )?"
                                               r"heddle::v0::[\w:~]+(?:\(.*\)(?: const)?(?:::\w+)?)?(?:\[abi:cxx11\].*)?"),
                              ("libheddle_driver.so", r"heddle_\w+")):
            library = self.prefix / "lib" / name
            lines = subprocess.run(["nm", "-D", "-C", "--defined-only", library], capture_output=True, text=True,
                                   check=True).stdout.splitlines()
            symbols = [line.split(None, 2)[2] for line in lines]
            self.assertGreater(len(symbols), 20)
            self.assertEqual([s for s in symbols if not re.fullmatch(pattern, s)], [])
            self.assertTrue(library.is_symlink())
            dynamic = subprocess.run(["objdump", "-p", library], capture_output=True, text=True, check=True).stdout
            self.assertIn(f"{name}.0", re.search(r"SONAME\s+(\S+)", dynamic)[1])
            self.assertNotIn("RUNPATH", dynamic)

    def test_the_platform_of_the_page_with_cmake(self):
        files = named_files(EMBED)
        self.assertEqual(sorted(files), ["CMakeLists.txt", "kernels.yaml", "main.cpp"])
        folder = self.folder("embed-cmake", files)
        self.assertIn(blocks(EMBED, "text")[0], self.sh(folder, blocks(EMBED, "sh")[0]))

    def test_the_platform_of_the_page_with_pkg_config(self):
        folder = self.folder("embed-pkg-config", named_files(EMBED))
        self.assertIn(blocks(EMBED, "text")[0], self.sh(folder, blocks(EMBED, "sh")[1]))

    def test_the_platform_of_the_page_as_a_shared_object(self):
        folder = self.folder("embed-shared", {**named_files(EMBED), "loader.c": LOADER})
        self.sh(folder, blocks(EMBED, "sh")[2])
        self.assertIn(blocks(EMBED, "text")[0], self.sh(folder, "gcc loader.c -o loader && ./loader"))

    def test_the_other_code_of_the_page_compiles(self):
        machine, *others = [code for code in blocks(EMBED, "cpp") if "#include" not in code]
        self.assertEqual(len(others), 4)  # look, list, trace, save
        text = f"#include <fstream>\n#include <iostream>\n#include <heddle/gpu.h>\nint sc_main(int, char**) {{\n{machine}" \
               f"heddle::Gpu gpu(\"gpu0\", options);\n{''.join(others)}return 0;\n}}\n"
        folder = self.folder("embed-rest", {"rest.cpp": text})
        self.sh(folder, "g++ -Wall -Werror -fsyntax-only rest.cpp $(pkg-config --cflags heddle)")

    def test_the_c_library_of_its_page_in_front_of_a_device_and_of_none(self):
        dump = self.folder("dump", {"dump.cpp": DUMP, "CMakeLists.txt": DUMP_CMAKE})
        self.sh(dump, "cmake -S . -B build && cmake --build build && build/dump bar0 && truncate -s 64K zeros")
        files = named_files(DRIVER)
        self.assertEqual(sorted(files), ["CMakeLists.txt", "probe.c"])
        folder = self.folder("driver", files)
        with_cmake, with_pkg_config = blocks(DRIVER, "sh")
        self.sh(folder, with_cmake)
        self.sh(folder, with_pkg_config)
        device, nothing = blocks(DRIVER, "text")
        for program in ("./probe", "build/probe"):
            self.assertEqual(self.sh(folder, f"{program} ../dump/bar0 ../dump/zeros"), device)
            self.assertEqual(self.sh(folder, f"{program} ../dump/zeros ../dump/zeros", 1), nothing)

    def test_a_kernel_of_a_file_runs_on_an_installed_device(self):
        folder = self.folder("kernels", {"kernels.yaml": blocks(KERNELS, "yaml")[0], "scale.c": blocks(KERNELS, "c")[0],
                                         "launch.cpp": LAUNCH})
        said = self.sh(folder, "~/heddle/bin/heddle compile kernels.yaml -o kernels.hdl\n"
                               "gcc -c scale.c $(pkg-config --cflags heddle-driver)\n"
                               "g++ launch.cpp scale.o -o launch $(pkg-config --cflags --libs heddle heddle-driver)\n"
                               "./launch kernels.hdl")
        self.assertIn("result 0, 256 right", said)

    def test_packages_are_made_and_say_what_they_need(self):
        made = self.home / "made"
        for kind in ("DEB", "TGZ"):
            done = subprocess.run(["cpack", "-G", kind, "--config", BUILD / "CPackConfig.cmake", "-B", made],
                                  capture_output=True, text=True, check=False, cwd=self.home)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        deb, archive = next(made.glob("*.deb")), next(made.glob("*.tar.gz"))
        field = {name: subprocess.run(["dpkg-deb", "-f", deb, name], capture_output=True, text=True,
                                      check=True).stdout.strip() for name in ("Package", "Version", "Depends")}
        self.assertEqual(field["Package"], "heddle")
        for needed in ("libsystemc-dev", "libsystemc ", "libyaml-cpp0", "libfmt", "libmuparser", "zlib1g", "libc6"):
            self.assertIn(needed, field["Depends"])
        inside = subprocess.run(["tar", "tzf", archive], capture_output=True, text=True, check=True).stdout
        names = {line.split("/", 1)[1] for line in inside.splitlines() if not line.endswith("/")}
        installed = {str(path.relative_to(self.prefix)) for path in self.prefix.rglob("*")
                     if not path.is_dir() or path.is_symlink()}
        self.assertEqual(names, installed)

    def test_the_program_needs_no_file_beside_it(self):
        folder = self.folder("program", {"kernels.yaml": named_files(EMBED)["kernels.yaml"]})
        said = self.sh(folder, "~/heddle/bin/heddle run kernels.yaml --gpu small --timing lt")
        self.assertIn("gpu0", said)
        self.assertTrue((folder / "heddle-out").is_dir())

    def test_the_python_package_finds_the_program_beside_it(self):
        folder = self.folder("python", {"kernels.yaml": named_files(EMBED)["kernels.yaml"], "ask.py": PYTHON})
        said = self.sh(folder, "PYTHONPATH=~/heddle/lib/python3/dist-packages python3 -B ask.py")
        self.assertEqual(said, f"{self.prefix}/bin/heddle\nTrue True\n")

    def test_the_manual_page_and_the_completion_are_those_of_the_program(self):
        page = subprocess.run([ROOT / "scripts/manual", self.prefix / "bin/heddle"], capture_output=True, text=True, check=True)
        self.assertEqual((self.prefix / "share/man/man1/heddle.1").read_text(encoding="utf-8"), page.stdout)
        folder = self.folder("completion", {})
        said = self.sh(folder, "PATH=~/heddle/bin:$PATH; source ~/heddle/share/bash-completion/completions/heddle\n"
                               "COMP_WORDS=(heddle ver); COMP_CWORD=1; _heddle heddle; echo ${COMPREPLY[@]}")
        self.assertEqual(said, "version\n")


if __name__ == "__main__":
    unittest.main()
