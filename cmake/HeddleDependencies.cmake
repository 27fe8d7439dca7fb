# What Heddle is built from. Everything comes from the distribution's packages; nothing is downloaded.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(Boost REQUIRED COMPONENTS program_options)
pkg_check_modules(MUPARSER REQUIRED IMPORTED_TARGET muparser)
# libcsv brings neither a CMake package nor a pkg-config file.
find_library(CSV_LIBRARY NAMES csv REQUIRED)
find_path(CSV_INCLUDE_DIR NAMES csv.h REQUIRED)
add_library(csv::csv UNKNOWN IMPORTED)
set_target_properties(csv::csv PROPERTIES
  IMPORTED_LOCATION "${CSV_LIBRARY}"
  INTERFACE_INCLUDE_DIRECTORIES "${CSV_INCLUDE_DIR}")

# SystemC brings a CMake package when it is built from source; Debian's ships pkg-config files only.
find_package(SystemCLanguage CONFIG QUIET)
if(NOT TARGET SystemC::systemc)
  pkg_check_modules(SYSTEMC REQUIRED systemc)
  find_library(SYSTEMC_LIBRARY NAMES systemc HINTS ${SYSTEMC_LIBRARY_DIRS} REQUIRED)
  find_path(SYSTEMC_INCLUDE_DIR NAMES systemc HINTS ${SYSTEMC_INCLUDE_DIRS} REQUIRED)
  add_library(SystemC::systemc UNKNOWN IMPORTED)
  set_target_properties(SystemC::systemc PROPERTIES
    IMPORTED_LOCATION "${SYSTEMC_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${SYSTEMC_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()
