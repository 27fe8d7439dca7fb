// The points of a sweep: which values each takes, the command it is, and where its results go.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "sweep/sweep_file.h"

namespace heddle::sweep {

struct Point {
  std::size_t number = 0;              // from 1, in the order of the plan
  std::vector<AxisValue> values;       // one per axis
  std::string key;                     // what is simulated, as the file writes it: the same key is the same point
  std::vector<std::string> arguments;  // of `heddle run`, without --out
  std::vector<std::string> files;      // that it reads
  std::string folder;                  // below the folder of the sweep

  // The values that are numbers, by name of the axis.
  std::map<std::string, double> numbers(const Sweep& sweep) const;
  // "bandwidth=64 slices=80"
  std::string text(const Sweep& sweep) const;
};

// The whole grid, the last axis fastest, or the samples; without the points that `where` leaves out. Throws InputError
// if none is left, if there are more than 100,000, or if there are not as many different samples.
std::vector<Point> plan_of(const Sweep& sweep);

// 64 bits, FNV-1a, as 16 hexadecimal digits: tells texts and files apart, and is no protection against anybody.
class Digest {
 public:
  void add(const std::string& text);
  std::string text() const;

 private:
  std::uint64_t state_ = 0xCBF2'9CE4'8422'2325U;
};

}  // namespace heddle::sweep
