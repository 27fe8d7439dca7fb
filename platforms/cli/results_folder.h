// The folder that the results of a run go to: of this run alone, and of one run at a time.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace heddle::cli {

class ResultsFolder {
 public:
  // `chosen`: what the user wants (--out); none: heddle-out/`name`. Throws InputError if it cannot be used, or if a run
  // that has not ended writes into it. What lies in it stays as it is until begin().
  ResultsFolder(const std::optional<std::string>& chosen, const std::string& name, std::string command);
  ~ResultsFolder();
  ResultsFolder(const ResultsFolder&) = delete;
  ResultsFolder& operator=(const ResultsFolder&) = delete;

  // Results of an earlier run that lie there go: in a folder of the user's choice, or where its command was the same,
  // they are removed, and files that no run has written stay; otherwise the folder is kept, with all that is in it, as
  // heddle-out/name.1 and so on, where results can be compared. Then writes host.json, which says that this run has not
  // ended; it says "failed" once an exception has ended it. `more`: files below the folder that it may write beside
  // those that every run may write.
  void begin(const std::vector<std::string>& more);

  const std::filesystem::path& path() const { return path_; }
  std::string file(std::string_view name) const { return (path_ / name).string(); }
  const std::vector<std::string>& more() const { return more_; }
  // Where results of another command went that were here; empty: there were none.
  const std::string& kept() const { return kept_; }

  // True of names that files of results have.
  static bool is_result(std::string_view name);

 private:
  void make();
  bool tell(const char* state) const;
  void keep_earlier();
  void remove_earlier(const nlohmann::json& earlier);
  [[noreturn]] void unusable(const std::string& why) const;

  const std::filesystem::path path_;
  const bool chosen_;
  const std::string command_;
  std::string kept_;
  std::vector<std::string> more_;
  bool begun_ = false;
  int lock_ = -1;
};

// True of the name of a file below `folder`: a relative one that does not lead out of it.
bool lies_within(const std::filesystem::path& folder, const std::string& name);

}  // namespace heddle::cli
