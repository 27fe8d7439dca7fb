#include "cli/command_line.h"

#include "common/suggest.h"

namespace heddle::cli {

namespace po = boost::program_options;

po::options_description described_options() {
  po::options_description options("options", 100);
  options.add_options()("help,h", "this text");
  return options;
}

CommandLine::CommandLine(std::string command, const po::options_description& options,
                         const std::vector<std::string>& arguments)
    : command_(std::move(command)) {
  po::options_description all;
  all.add(options);
  all.add_options()("word", po::value<std::vector<std::string>>(&words_));
  po::positional_options_description positional;
  positional.add("word", -1);
  const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  try {
    po::store(po::command_line_parser(arguments).options(all).positional(positional).style(style).run(), values_);
    po::notify(values_);
  } catch (const po::unknown_option& error) {
    std::vector<std::string> names;
    for (const auto& option : options.options()) names.push_back("--" + option->long_name());
    const std::string near = nearest(error.get_option_name(), names);
    bad(fmt::format("there is no option {}", error.get_option_name()),
        near.empty() ? std::string() : fmt::format("did you mean {}?", near));
  } catch (const po::error& error) {
    bad(error.what());
  }
}

void CommandLine::bad(const std::string& message, const std::string& remedy) const {
  throw InputError(message, remedy.empty() ? command_ + " --help lists the options" : remedy);
}

}  // namespace heddle::cli
