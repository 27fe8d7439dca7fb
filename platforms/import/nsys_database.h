// SQLite files that nobody vouches for: opened without a trace on the disk, read table by table, every value checked
// before it is used (INP-05, INP-07).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "import/byte_source.h"

struct sqlite3;
struct sqlite3_stmt;

namespace heddle::import {

// A database, open for reading. Nothing is written: neither into the file nor beside it.
class NsysDatabase {
 public:
  // `source` is at its first byte. A plain file is read in place, page by page; what is packed, or not a file, is
  // taken into memory as a whole. Throws InputError where the bytes are no complete database.
  explicit NsysDatabase(ByteSource& source);

  const std::string& name() const { return name_; }
  // A table with that name that holds rows of its own: no view, no virtual table.
  bool has_table(std::string_view table) const;
  // Names of the columns of that table.
  std::vector<std::string> columns(std::string_view table) const;

  // Throws: what SQLite says is wrong.
  [[noreturn]] void fail(std::string_view doing) const;

 private:
  friend class NsysScan;
  struct Closer {
    void operator()(sqlite3* connection) const;
  };
  struct Finalizer {
    void operator()(sqlite3_stmt* statement) const;
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Finalizer>;

  void open_in_place();
  void open_in_memory(ByteSource& source);
  Statement prepare(const std::string& sql) const;

  std::string name_;
  std::unique_ptr<sqlite3, Closer> connection_;
};

// One pass over a table.
class NsysScan {
 public:
  struct Column {
    const char* name;
    bool required;  // in the table; an optional one that is missing reads as NULL in every row
  };

  // The database must outlive the scan. Throws InputError if the table or a required column is missing.
  NsysScan(const NsysDatabase& database, const char* table, const std::vector<Column>& columns);

  // The next row; false behind the last.
  bool next();

  // Columns by their place in the list. NULL is absent.
  bool present(std::size_t column) const;
  // Throws InputError for NULL, for what is no integer, and outside the limits.
  std::int64_t integer(std::size_t column, std::int64_t min = std::numeric_limits<std::int64_t>::min(),
                       std::int64_t max = std::numeric_limits<std::int64_t>::max()) const;
  std::int64_t integer_or(std::size_t column, std::int64_t absent, std::int64_t min, std::int64_t max) const;
  std::string text(std::size_t column) const;

  std::int64_t row() const { return row_; }
  // "CUPTI_ACTIVITY_KIND_KERNEL, row 7"
  std::string place() const;
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::string describe(std::size_t column) const;
  [[noreturn]] void wrong(std::size_t column, const std::string& expected) const;

  const NsysDatabase& database_;
  const char* table_;
  std::vector<Column> columns_;
  std::vector<int> places_;  // of the columns in the statement; -1: not in the table
  NsysDatabase::Statement statement_;
  std::int64_t row_ = 0;  // SQLite's rowid
  bool started_ = false;
};

// The bytes with which every SQLite database begins.
inline constexpr std::string_view kSqliteMagic{"SQLite format 3\0", 16};

constexpr std::string_view kExportAgain =
    "The file is damaged or of an unknown kind: export the recording again (nsys export --type sqlite).";

}  // namespace heddle::import
