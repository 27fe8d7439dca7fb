#include "import/nsys_database.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <sqlite3.h>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "import/kineto_json.h"

namespace heddle::import {
namespace {

constexpr std::size_t kDatabaseHeaderBytes = 100;
constexpr std::size_t kFirstCapacity = std::size_t{1} << 20;
constexpr std::size_t kMaxUnpacked = std::size_t{1} << 33;  // a few kilobytes of gzip can hold a thousand times more
constexpr const char* kCheckPermissions = "Check the name and the permissions of the file.";

using Header = std::array<unsigned char, kDatabaseHeaderBytes>;

std::uint64_t big_endian(const unsigned char* bytes, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value = value << 8U | bytes[i];
  return value;
}

// Bytes that the header promises; 0 if it does not say (a change counter of an old writer).
std::uint64_t promised_bytes(const unsigned char* header) {
  const std::uint64_t page = big_endian(header + 16, 2) == 1 ? 65'536 : big_endian(header + 16, 2);
  const bool valid = big_endian(header + 24, 4) == big_endian(header + 92, 4);
  return valid ? page * big_endian(header + 28, 4) : 0;
}

void check_header(const std::string& name, const unsigned char* header, std::uint64_t size) {
  if (!std::equal(kSqliteMagic.begin(), kSqliteMagic.end(), reinterpret_cast<const char*>(header))) {
    throw InputError({name}, "byte 0: this is no SQLite database", kExportAgain);
  }
  const std::uint64_t promised = promised_bytes(header);
  if (size >= promised) return;
  throw InputError({name},
                   fmt::format("byte {}: the database is truncated: its header promises {} bytes", size, promised),
                   kExportAgain);
}

// A path as SQLite's URIs want it.
std::string uri_of(const std::string& path) {
  std::string uri = "file:";
  // Without it "//host/file" would be an authority.
  if (!path.empty() && path.front() == '/') uri += "//";
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
                       c == '.' || c == '-' || c == '_';
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  // immutable: no lock files, and no journal of another program is played back into the file.
  return uri + "?mode=ro&immutable=1";
}

// A name in double quotes.
std::string quoted(std::string_view name) {
  std::string result = "\"";
  for (const char c : name) result += c == '"' ? std::string("\"\"") : std::string(1, c);
  return result + '"';
}

}  // namespace

void NsysDatabase::Closer::operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }
void NsysDatabase::Finalizer::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

NsysDatabase::NsysDatabase(ByteSource& source) : name_(source.name()) {
  const bool empty = std::streambuf::traits_type::eq_int_type(source.sgetc(), std::streambuf::traits_type::eof());
  if (empty) throw InputError({name_}, "byte 0: the file is empty", kExportAgain);
  if (source.plain_file()) {
    open_in_place();
  } else {
    open_in_memory(source);
  }
  sqlite3_db_config(connection_.get(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(connection_.get(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  // The first read of the schema: what is no database at all fails here.
  const Statement probe = prepare("PRAGMA schema_version");
  if (sqlite3_step(probe.get()) != SQLITE_ROW) fail("cannot be read");
}

void NsysDatabase::open_in_place() {
  sqlite3* connection = nullptr;
  const int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_EXRESCODE;
  const int status = sqlite3_open_v2(uri_of(name_).c_str(), &connection, flags, nullptr);
  connection_.reset(connection);
  if (status != SQLITE_OK) {
    throw InputError({name_}, fmt::format("cannot be opened: {}", sqlite3_errstr(status)), kCheckPermissions);
  }
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(name_, error);
  Header header{};
  sqlite3_file* file = nullptr;
  sqlite3_file_control(connection, "main", SQLITE_FCNTL_FILE_POINTER, static_cast<void*>(&file));
  if (error || file == nullptr || size < header.size() ||
      file->pMethods->xRead(file, header.data(), static_cast<int>(header.size()), 0) != SQLITE_OK) {
    throw InputError({name_}, fmt::format("byte {}: the database is truncated: its header is not complete", size),
                     kExportAgain);
  }
  check_header(name_, header.data(), size);
}

void NsysDatabase::open_in_memory(ByteSource& source) {
  struct Free {
    void operator()(unsigned char* bytes) const { sqlite3_free(bytes); }
  };
  std::size_t capacity = kFirstCapacity;
  std::size_t size = 0;
  std::unique_ptr<unsigned char, Free> bytes(static_cast<unsigned char*>(sqlite3_malloc64(capacity)));
  const auto too_large = [this]() -> InputError {
    return {{name_}, "the database is too large to be unpacked into memory", "Unpack it first, with `gzip -d`."};
  };
  if (!bytes) throw too_large();
  while (true) {
    const std::streamsize got =
        source.sgetn(reinterpret_cast<char*>(bytes.get()) + size, static_cast<std::streamsize>(capacity - size));
    size += static_cast<std::size_t>(got);
    if (size < capacity) break;
    capacity *= 2;
    auto* larger =
        capacity > kMaxUnpacked ? nullptr : static_cast<unsigned char*>(sqlite3_realloc64(bytes.get(), capacity));
    if (larger == nullptr) throw too_large();
    (void)bytes.release();  // realloc has freed it
    bytes.reset(larger);
  }
  if (size < kDatabaseHeaderBytes) {
    throw InputError(
        {name_}, fmt::format("{}: the database is truncated: its header is not complete", source.position_text(size)),
        kExportAgain);
  }
  check_header(name_, bytes.get(), size);
  // A database in memory has no write-ahead log beside it; without this SQLite would look for one and give up.
  bytes.get()[18] = 1;
  bytes.get()[19] = 1;

  sqlite3* connection = nullptr;
  const int status = sqlite3_open_v2(":memory:", &connection,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_EXRESCODE, nullptr);
  connection_.reset(connection);
  HEDDLE_CHECK(status == SQLITE_OK, "SQLite opens a database in memory");
  const auto length = static_cast<sqlite3_int64>(size);
  // It frees the bytes, also where it fails.
  if (sqlite3_deserialize(connection, "main", bytes.release(), length, length,
                          SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY) != SQLITE_OK) {
    fail("cannot be read");
  }
}

void NsysDatabase::fail(std::string_view doing) const {
  throw InputError({name_}, fmt::format("{}: {}", doing, sqlite3_errmsg(connection_.get())), kExportAgain);
}

NsysDatabase::Statement NsysDatabase::prepare(const std::string& sql) const {
  sqlite3_stmt* statement = nullptr;
  const int status =
      sqlite3_prepare_v2(connection_.get(), sql.c_str(), static_cast<int>(sql.size()), &statement, nullptr);
  Statement result(statement);
  if (status != SQLITE_OK) fail("the database cannot be read");
  return result;
}

bool NsysDatabase::has_table(std::string_view table) const {
  const Statement statement =
      prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name = ?1 COLLATE NOCASE");
  sqlite3_bind_text(statement.get(), 1, table.data(), static_cast<int>(table.size()), SQLITE_TRANSIENT);
  const int status = sqlite3_step(statement.get());
  if (status != SQLITE_ROW && status != SQLITE_DONE) fail("the list of tables cannot be read");
  return status == SQLITE_ROW;
}

std::vector<std::string> NsysDatabase::columns(std::string_view table) const {
  // Not `table_xinfo`: generated columns, which compute something, stay hidden.
  const Statement statement = prepare(fmt::format("PRAGMA table_info({})", quoted(table)));
  std::vector<std::string> names;
  int status = SQLITE_OK;
  while ((status = sqlite3_step(statement.get())) == SQLITE_ROW) {
    const auto* name = reinterpret_cast<const char*>(sqlite3_column_text(statement.get(), 1));
    names.emplace_back(name != nullptr ? name : "");
  }
  if (status != SQLITE_DONE) fail(fmt::format("{}: the columns cannot be read", table));
  return names;
}

NsysScan::NsysScan(const NsysDatabase& database, const char* table, const std::vector<Column>& columns)
    : database_(database), table_(table), columns_(columns) {
  if (!database.has_table(table))
    throw InputError({database.name()}, fmt::format("has no table {}", table), kExportAgain);
  const std::vector<std::string> present = database.columns(table);
  std::string sql = "SELECT rowid";
  int place = 0;
  for (const Column& column : columns) {
    const auto same = [&column](const std::string& name) { return sqlite3_stricmp(name.c_str(), column.name) == 0; };
    if (std::any_of(present.begin(), present.end(), same)) {
      sql += ", " + quoted(column.name);
      places_.push_back(++place);
      continue;
    }
    if (column.required) {
      throw InputError({database.name()}, fmt::format("{}: there is no column {}", table, column.name), kExportAgain);
    }
    places_.push_back(-1);
  }
  // In the order of the file, by number of the row, through no index that a damaged file may have wrong.
  statement_ = database.prepare(sql + " FROM " + quoted(table) + " NOT INDEXED");
}

bool NsysScan::next() {
  const int status = sqlite3_step(statement_.get());
  if (status == SQLITE_DONE) return false;
  if (status != SQLITE_ROW) database_.fail(fmt::format("{}, behind row {}", table_, row_));
  const std::int64_t row = sqlite3_column_int64(statement_.get(), 0);
  // Pages that lead to each other in a circle would give rows without end.
  if (started_ && row <= row_) fail("the row after it has a smaller number");
  started_ = true;
  row_ = row;
  return true;
}

bool NsysScan::present(std::size_t column) const {
  const int place = places_[column];
  return place >= 0 && sqlite3_column_type(statement_.get(), place) != SQLITE_NULL;
}

std::string NsysScan::place() const { return fmt::format("{}, row {}", table_, row_); }

void NsysScan::fail(const std::string& what) const {
  throw InputError({database_.name()}, fmt::format("{}: {}", place(), what), kExportAgain);
}

std::string NsysScan::describe(std::size_t column) const {
  const int place = places_[column];
  if (!present(column)) return "absent";
  constexpr std::size_t kShown = 40;
  switch (sqlite3_column_type(statement_.get(), place)) {
    case SQLITE_INTEGER:
      return fmt::format("{}", sqlite3_column_int64(statement_.get(), place));
    case SQLITE_FLOAT:
      return fmt::format("{}", sqlite3_column_double(statement_.get(), place));
    case SQLITE_BLOB:
      return "binary data";
    default:
      return fmt::format("\"{}\"", printable(text(column), kShown));
  }
}

void NsysScan::wrong(std::size_t column, const std::string& expected) const {
  fail(fmt::format("\"{}\" is {}, expected {}", columns_[column].name, describe(column), expected));
}

std::int64_t NsysScan::integer(std::size_t column, std::int64_t min, std::int64_t max) const {
  const int place = places_[column];
  const bool number = present(column) && sqlite3_column_type(statement_.get(), place) == SQLITE_INTEGER;
  const std::int64_t value = number ? sqlite3_column_int64(statement_.get(), place) : 0;
  if (number && value >= min && value <= max) return value;
  const bool bounded =
      min != std::numeric_limits<std::int64_t>::min() || max != std::numeric_limits<std::int64_t>::max();
  wrong(column, bounded ? fmt::format("an integer from {} to {}", min, max) : "an integer");
}

std::int64_t NsysScan::integer_or(std::size_t column, std::int64_t absent, std::int64_t min, std::int64_t max) const {
  return present(column) ? integer(column, min, max) : absent;
}

std::string NsysScan::text(std::size_t column) const {
  const int place = places_[column];
  if (!present(column) || sqlite3_column_type(statement_.get(), place) != SQLITE_TEXT) wrong(column, "a text");
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), place));
  return bytes != nullptr ? std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), place)))
                          : std::string();
}

}  // namespace heddle::import
