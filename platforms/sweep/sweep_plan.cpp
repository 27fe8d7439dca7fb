#include "sweep/sweep_plan.h"

#include <cmath>
#include <random>
#include <set>

#include <fmt/format.h>

#include "program/expression.h"

namespace heddle::sweep {

using namespace program;
namespace {

constexpr std::size_t kMostPoints = 100'000;
constexpr std::size_t kTriesPerSample = 1000;

// Expressions over the axes that are numbers.
class AxisExpressions {
 public:
  explicit AxisExpressions(const Sweep& sweep) : sweep_(sweep) {
    for (const std::string& name : sweep.numeric_axes()) names_.set(name, numbers_[name] = slots_.add());
    if (!sweep.where.empty()) where_.emplace_back(sweep.where, sweep.where_pos, names_, slots_);
    for (const Derived& derived : sweep.derived) derived_.emplace_back(derived.value, derived.where, names_, slots_);
  }

  // Of which point the others speak from now on.
  void look_at(const Point& point) {
    for (const auto& [name, number] : point.numbers(sweep_)) slots_.at(numbers_.at(name)) = number;
  }
  bool wanted() const { return where_.empty() || where_.front().value() != 0; }
  double derived(std::size_t index) const { return derived_[index].value(); }

 private:
  const Sweep& sweep_;
  NameTable names_;
  ExpressionSlots slots_;
  std::map<std::string, std::uint32_t> numbers_;
  std::vector<Expression> where_;  // none or one
  std::vector<Expression> derived_;
};

// From what is chosen to what is run.
void finish(Point& point, const Sweep& sweep, const AxisExpressions& expressions) {
  std::vector<std::string> files;
  std::vector<std::string> arguments;
  const auto apply = [&](const Setting& setting, const std::string& value) {
    // Where baselines are kept changes how long a point takes, and nothing that it comes to.
    if (setting.text() != "--keep-baselines") point.key += setting.text() + "=" + value + "\n";
    std::vector<std::string> its = arguments_of(sweep, setting, value);
    const bool file = setting.text() == "file";
    if (file || setting.text() == "--gpu" || setting.text() == "--counters") point.files.push_back(its.back());
    std::vector<std::string>& into = file ? files : arguments;
    into.insert(into.end(), its.begin(), its.end());
  };
  for (const std::string& input : sweep.inputs) apply({Setting::Kind::option, "file"}, input);
  for (const auto& [setting, value] : sweep.common) apply(setting, value);
  for (std::size_t a = 0; a < sweep.axes.size(); ++a) {
    for (std::size_t s = 0; s < sweep.axes[a].settings.size(); ++s) {
      apply(sweep.axes[a].settings[s], point.values[a].texts[s]);
    }
  }
  for (std::size_t d = 0; d < sweep.derived.size(); ++d) {
    const Derived& derived = sweep.derived[d];
    double value = expressions.derived(d);
    if (!std::isfinite(value)) {
      throw InputError(derived.where, fmt::format("derived, value: it is not finite at {}", point.text(sweep)),
                       "leave such points out with `where`");
    }
    if (derived.whole) value = std::round(value);
    const std::string text = fmt::format("{:.12g}{}{}", value, derived.unit.empty() ? "" : " ", derived.unit);
    for (const Setting& setting : derived.settings) apply(setting, text);
  }
  point.arguments = files;
  point.arguments.insert(point.arguments.end(), arguments.begin(), arguments.end());
  Digest digest;
  digest.add(point.key);
  point.folder = "points/" + digest.text();
}

std::vector<Point> grid_of(const Sweep& sweep, AxisExpressions& expressions) {
  std::size_t all = 1;
  for (const Axis& axis : sweep.axes) {
    all *= axis.values.size();
    if (all > kMostPoints) {
      throw InputError(axis.where, fmt::format("the grid has more than {} points", kMostPoints),
                       "take fewer values, or draw points at random with `samples`");
    }
  }
  std::vector<Point> points;
  for (std::size_t index = 0; index < all; ++index) {
    Point point;
    std::size_t rest = index;
    point.values.resize(sweep.axes.size());
    for (std::size_t a = sweep.axes.size(); a-- > 0;) {
      const std::vector<AxisValue>& values = sweep.axes[a].values;
      point.values[a] = values[rest % values.size()];
      rest /= values.size();
    }
    expressions.look_at(point);
    if (!expressions.wanted()) continue;
    finish(point, sweep, expressions);
    points.push_back(std::move(point));
  }
  return points;
}

// The same numbers on every machine, as the distributions of <random> are not.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}
  // 0 ≤ x < 1
  double part() { return std::ldexp(static_cast<double>(engine_() >> 11U), -53); }

  AxisValue of(const Axis& axis) {
    if (!axis.values.empty()) {
      return axis.values[static_cast<std::size_t>(part() * static_cast<double>(axis.values.size()))];
    }
    const AxisRange& range = *axis.range;
    const double x = part();
    return axis.at(range.log ? range.from * std::pow(range.to / range.from, x)
                             : range.from + (range.to - range.from) * x);
  }

 private:
  std::mt19937_64 engine_;
};

std::vector<Point> samples_of(const Sweep& sweep, AxisExpressions& expressions) {
  Draw draw(sweep.samples->seed);
  std::vector<Point> points;
  std::set<std::string> seen;
  const std::size_t wanted = sweep.samples->points;
  for (std::size_t tries = kTriesPerSample * wanted; tries > 0 && points.size() < wanted; --tries) {
    Point point;
    for (const Axis& axis : sweep.axes) point.values.push_back(draw.of(axis));
    expressions.look_at(point);
    if (!expressions.wanted()) continue;
    finish(point, sweep, expressions);
    if (seen.insert(point.key).second) points.push_back(std::move(point));
  }
  if (points.size() < wanted) {
    throw InputError({sweep.file, 0, 0},
                     fmt::format("samples: {} different points were found, not {}", points.size(), wanted),
                     "ask for fewer, or look at what `where` leaves");
  }
  return points;
}

}  // namespace

std::map<std::string, double> Point::numbers(const Sweep& sweep) const {
  std::map<std::string, double> result;
  for (std::size_t a = 0; a < sweep.axes.size(); ++a) {
    if (sweep.axes[a].numeric()) result[sweep.axes[a].name] = *values[a].number;
  }
  return result;
}

std::string Point::text(const Sweep& sweep) const {
  std::string result;
  for (std::size_t a = 0; a < sweep.axes.size(); ++a) {
    result += fmt::format("{}{}={}", a == 0 ? "" : " ", sweep.axes[a].name, values[a].label);
  }
  return result;
}

std::vector<Point> plan_of(const Sweep& sweep) {
  AxisExpressions expressions(sweep);
  std::vector<Point> points = sweep.samples ? samples_of(sweep, expressions) : grid_of(sweep, expressions);
  if (points.empty()) {
    throw InputError(sweep.where.empty() ? SourcePos{sweep.file, 0, 0} : sweep.where_pos, "where: it leaves no point");
  }
  std::map<std::string, std::size_t> numbers;
  for (std::size_t i = 0; i < points.size(); ++i) {
    points[i].number = i + 1;
    const auto [other, fresh] = numbers.emplace(points[i].key, points[i].number);
    if (!fresh) {
      throw InputError({sweep.file, 0, 0},
                       fmt::format("the points {} ({}) and {} ({}) run the same", other->second,
                                   points[other->second - 1].text(sweep), points[i].number, points[i].text(sweep)),
                       "leave one of them out with `where`, or take the value out of the axis");
    }
  }
  return points;
}

void Digest::add(const std::string& text) {
  const auto byte = [this](unsigned char value) { state_ = (state_ ^ value) * 0x100'0000'01B3U; };
  for (const char c : text) byte(static_cast<unsigned char>(c));
  // What is added one after the other is not the same as what is added together.
  for (std::size_t size = text.size(), i = 0; i < sizeof size; ++i) byte(static_cast<unsigned char>(size >> (8 * i)));
}

std::string Digest::text() const { return fmt::format("{:016x}", state_); }

}  // namespace heddle::sweep
