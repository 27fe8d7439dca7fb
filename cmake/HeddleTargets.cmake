# One library per folder: every .cpp in it, the repository's `models/` and `platforms/` as include roots.

add_library(heddle_options INTERFACE)
target_compile_features(heddle_options INTERFACE cxx_std_17)
# -ffp-contract=off: results must not depend on whether the compiler fuses multiply and add.
target_compile_options(heddle_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -ffp-contract=off
  "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")
# GCC's own garbage collection takes a tenth of its time when it starts at its default of 128 MB: 512 MB here.
target_compile_options(heddle_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=524288>)
if(HEDDLE_SANITIZE)
  target_compile_options(heddle_options INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(heddle_options INTERFACE -fsanitize=address,undefined)
endif()

# Sources are compiled several at a time: most of a compiler's time goes into headers, which they share. A name in an
# anonymous namespace that two sources of a folder use for different things is an error then; where that is meant,
# heddle_apart() keeps a source to itself.
set(HEDDLE_SOURCES_AT_A_TIME 16)

# Archives are position-independent, so that a shared object can take them, and what a shared library shows is named
# where it is declared (HEDDLE_API): without that, -fPIC would keep the compiler from inlining.
function(heddle_position_independent name)
  set_target_properties(${name} PROPERTIES
    POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# heddle_library(<name> <dependency>...)
function(heddle_library name)
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC
    "${PROJECT_SOURCE_DIR}/models" "${PROJECT_SOURCE_DIR}/platforms")
  target_link_libraries(${name} PUBLIC ${ARGN} PRIVATE heddle_options)
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${HEDDLE_SOURCES_AT_A_TIME})
  heddle_position_independent(${name})
endfunction()

# heddle_apart(<source>...)
function(heddle_apart)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# heddle_once_a_run(<library>): what reads input and writes reports. It is quick anyhow, and half as long to compile.
function(heddle_once_a_run name)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# heddle_headers(<name> <dependency>...): a folder without a .cpp of its own.
function(heddle_headers name)
  add_library(${name} INTERFACE)
  target_include_directories(${name} INTERFACE
    "${PROJECT_SOURCE_DIR}/models" "${PROJECT_SOURCE_DIR}/platforms")
  target_link_libraries(${name} INTERFACE ${ARGN})
endfunction()

# heddle_shared_library(<target> <name> <version script>): libNAME.so with the versions of docs/stability.md.
function(heddle_shared_library target name map)
  set(compatible ${PROJECT_VERSION_MAJOR})
  if(PROJECT_VERSION_MAJOR EQUAL 0)
    string(APPEND compatible .${PROJECT_VERSION_MINOR})  # a minor version may break something
  endif()
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${name} VERSION ${PROJECT_VERSION} SOVERSION ${compatible}
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib" LINK_DEPENDS "${map}")
  target_link_options(${target} PRIVATE "LINKER:--version-script=${map}")
  if(NOT HEDDLE_SANITIZE)  # whose functions come with the program
    target_link_options(${target} PRIVATE LINKER:--no-undefined)
  endif()
endfunction()

# heddle_archives_behind(<library> <variable>): the library and all archives of the project that it links.
function(heddle_archives_behind library variable)
  set(found)
  set(open ${library})
  while(open)
    list(POP_FRONT open next)
    if(next IN_LIST found OR NOT TARGET ${next})
      continue()
    endif()
    get_target_property(type ${next} TYPE)
    get_target_property(imported ${next} IMPORTED)
    if(imported)
      continue()
    endif()
    get_target_property(links ${next} INTERFACE_LINK_LIBRARIES)
    if(links)
      list(APPEND open ${links})
    endif()
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND found ${next})
    endif()
  endwhile()
  set(${variable} ${found} PARENT_SCOPE)
endfunction()
