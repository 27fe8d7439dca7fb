# What is installed, and the packages made of it: headers below heddle/, the libraries, the program, and what CMake and
# pkg-config need to find them. No file that is installed names a place of the source or the build tree.
include(CMakePackageConfigHelpers)

# What is installed has been built before: neither installing nor packing builds the tests.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)

set(HEDDLE_CMAKE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/heddle")
set(HEDDLE_PKGCONFIG_DIR "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH HEDDLE_PKGCONFIG_PREFIX "/prefix/${HEDDLE_PKGCONFIG_DIR}" "/prefix")

set_target_properties(heddle_shared PROPERTIES EXPORT_NAME gpu)
set_target_properties(heddle_driver PROPERTIES EXPORT_NAME driver)
install(TARGETS heddle RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(TARGETS heddle_shared heddle_driver heddle_driver_shared EXPORT heddle-targets)
if(TARGET heddle_cudart)  # for heddle cuda, which names the folder to the programs that it runs
  install(TARGETS heddle_cudart LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/heddle" NAMELINK_SKIP)
endif()
install(FILES "${PROJECT_BINARY_DIR}/lib/libheddle.a" DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${PROJECT_BINARY_DIR}/include/heddle" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.h")
install(FILES README.md CHANGELOG.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" RENAME copyright)

# The Python package, which starts the program; Debian's interpreters look there in /usr.
set(HEDDLE_PYTHON_DIR "lib/python3/dist-packages" CACHE STRING "Where the Python package goes, below the prefix")
install(DIRECTORY platforms/python/heddle DESTINATION "${HEDDLE_PYTHON_DIR}" FILES_MATCHING PATTERN "*.py"
  PATTERN "__pycache__" EXCLUDE)

install(FILES platforms/cli/completion/heddle.bash DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions"
  RENAME heddle)

# The manual page, from what the program says of itself.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_custom_command(OUTPUT "${PROJECT_BINARY_DIR}/heddle.1"
    COMMAND Python3::Interpreter -B "${PROJECT_SOURCE_DIR}/scripts/manual" $<TARGET_FILE:heddle> "${PROJECT_BINARY_DIR}/heddle.1"
    DEPENDS heddle scripts/manual COMMENT "Writing the manual page" VERBATIM)
  add_custom_target(heddle_manual ALL DEPENDS "${PROJECT_BINARY_DIR}/heddle.1")
  # Who has built some targets only may have no page, and can install the rest.
  install(FILES "${PROJECT_BINARY_DIR}/heddle.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" OPTIONAL)
endif()

install(EXPORT heddle-targets NAMESPACE heddle:: DESTINATION "${HEDDLE_CMAKE_DIR}")
configure_package_config_file(cmake/heddle-config.cmake.in "${PROJECT_BINARY_DIR}/heddle-config.cmake"
  INSTALL_DESTINATION "${HEDDLE_CMAKE_DIR}" PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
# Before 1.0 a minor version may take something away (docs/stability.md).
write_basic_package_version_file("${PROJECT_BINARY_DIR}/heddle-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/heddle-config.cmake" "${PROJECT_BINARY_DIR}/heddle-config-version.cmake"
  DESTINATION "${HEDDLE_CMAKE_DIR}")

foreach(name heddle heddle-driver)
  configure_file(cmake/${name}.pc.in "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${HEDDLE_PKGCONFIG_DIR}")
endforeach()

# cpack -G DEB, cpack -G TGZ
set(CPACK_PACKAGE_NAME heddle)
set(CPACK_PACKAGE_VENDOR "The Heddle project")
set(CPACK_PACKAGE_CONTACT "The Heddle project <heddle@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "SystemC/TLM-2.0 model of a GPU: device for virtual platforms, C library, program")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION electronics)
find_program(HEDDLE_SHLIBDEPS dpkg-shlibdeps)  # Debian: dpkg-dev
if(HEDDLE_SHLIBDEPS)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()
# The header includes SystemC's, and whoever links is told where it is by pkg-config.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libsystemc-dev, pkg-config")
# Of libheddle.a.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS
  "libyaml-cpp-dev, libfmt-dev, libmuparser-dev, zlib1g-dev, python3, python3-pandas, python3-yaml, bash-completion")
# Takes what interpreters have compiled beside the Python package.
configure_file(cmake/debian/prerm.in "${PROJECT_BINARY_DIR}/debian/prerm" @ONLY)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${PROJECT_BINARY_DIR}/debian/prerm")
include(CPack)
