# cpack: seven Debian packages of the installed files' components, and one tarball of all. See docs/install.md.
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGE_VENDOR "The Vertebra authors")
set(CPACK_PACKAGE_CONTACT "The Vertebra authors <authors@vertebra.invalid>" CACHE STRING "who answers for the packages")
set(CPACK_PACKAGE_FILE_NAME vertebra-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                                                WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR}) # one package needs another's library
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_COMPONENTS_GROUPING IGNORE)
# what is staged gets Debian's folders and forms before packages are made of it
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/docs/packages/debian.cmake)
set(CPACK_DEBIAN_TRIPLET ${CMAKE_LIBRARY_ARCHITECTURE})

# component, package, section, depends, what it is (its first line in lists); libraries are called by their soname
set(so ${VTB_ABI})
set(same "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(packages)
function(vtb_package component name section depends text)
  string(TOUPPER ${component} C)
  set(CPACK_COMPONENT_${C}_DESCRIPTION "${text}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${C}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${C}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${C}_PACKAGE_DEPENDS "${depends}" PARENT_SCOPE)
  set(packages ${packages} ${component} PARENT_SCOPE)
  # what Debian asks of every package
  set(doc ${CMAKE_INSTALL_DATADIR}/doc/${name})
  install(FILES ${CMAKE_SOURCE_DIR}/docs/packages/copyright ${CMAKE_BINARY_DIR}/changelog.gz
                ${CMAKE_BINARY_DIR}/changelog.Debian.gz DESTINATION ${doc} COMPONENT ${component})
endfunction()
find_program(GZIP gzip REQUIRED)
# Debian's own changelog is one entry: this version, of the day that the changelog gives it
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/CHANGELOG.md)
file(STRINGS CHANGELOG.md heading REGEX "^## " LIMIT_COUNT 1)
if(NOT heading MATCHES "^## ${PROJECT_VERSION} [(]([0-9]+-[0-9]+-[0-9]+)[)]$")
  message(FATAL_ERROR "CHANGELOG.md begins with '${heading}', not with '## ${PROJECT_VERSION} (YYYY-MM-DD)'")
endif()
execute_process(COMMAND date -uRd ${CMAKE_MATCH_1} OUTPUT_VARIABLE day OUTPUT_STRIP_TRAILING_WHITESPACE)
file(WRITE ${CMAKE_BINARY_DIR}/changelog.Debian "vertebra (${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) bookworm; urgency=medium

  * Vertebra ${PROJECT_VERSION}; changelog.gz says what is new.

 -- ${CPACK_PACKAGE_CONTACT}  ${day}
")
foreach(text changelog changelog.Debian)
  set(from ${CMAKE_BINARY_DIR}/${text})
  if(text STREQUAL changelog)
    set(from ${CMAKE_SOURCE_DIR}/CHANGELOG.md)
  endif()
  execute_process(COMMAND ${GZIP} -9nc ${from} OUTPUT_FILE ${CMAKE_BINARY_DIR}/${text}.gz COMMAND_ERROR_IS_FATAL ANY)
endforeach()

# opened when they are first needed, so that dpkg-shlibdeps does not see them
set(codecs "libpng16-16, libjpeg62-turbo, libwebp7")
set(llvm "libllvm19 (>= 1:19.1), libzip4")
vtb_package(command vertebra science "vertebra-models ${same}, ${llvm}, ${codecs}" "compiler for vision backbones
Describes, trains, checks and compiles vision backbones written in a small
language that reads like a paper's method section.")
vtb_package(models vertebra-models science "" "compiler for vision backbones: models
The library of the language and the papers' models, which the command and
the compiler's library read.")
vtb_package(runtime libvertebra-rt${so} libs "" "runs compiled vision backbones
Opens and runs the files that `vertebra build` makes; there is no compiler
in it.")
vtb_package(runner vertebra-run science "libvertebra-rt${so} ${same}, ${codecs}" "classifies images with compiled vision backbones
A command that opens the files that `vertebra build` made on another machine,
and prints the likeliest classes of each image. No compiler is needed.")
vtb_package(compiler libvertebra${so} libs "vertebra-models ${same}, ${llvm}" "compiler for vision backbones: library
The compiler with its runtime, for programs that compile models themselves:
those of the preset library, or of texts in its language.")
vtb_package(development libvertebra-dev libdevel "libvertebra-rt${so} ${same}, libvertebra${so} ${same}"
            "compiler for vision backbones: development
Headers, static libraries, pkg-config and CMake files of libvertebra and
libvertebra_rt.")
vtb_package(python python3-vertebra python "python3:any, python3-numpy, libvertebra${so} ${same}"
            "vision backbones from a small language, compiled, for Python 3
Models, blocks and recurrences as functions of NumPy's arrays and PyTorch's
tensors, there with gradients.")
set(CPACK_COMPONENTS_ALL ${packages})
set(CPACK_DEBIAN_MODELS_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA
    "${CMAKE_SOURCE_DIR}/docs/packages/python/postinst;${CMAKE_SOURCE_DIR}/docs/packages/python/prerm")
foreach(component RUNTIME COMPILER DEVELOPMENT)
  set(CPACK_DEBIAN_${component}_PACKAGE_MULTIARCH same)
endforeach()
# the loader's cache is renewed by dpkg's trigger
foreach(component RUNTIME COMPILER)
  set(CPACK_DEBIAN_${component}_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/docs/packages/libraries/triggers)
endforeach()
# for programs that link statically
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "libcjson-dev, libprotobuf-c-dev")
# `vertebra build` links by a C compiler, `vertebra graph` lays pictures out by graphviz
set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS "gcc | clang, libc6-dev, libgvc6")
set(CPACK_DEBIAN_COMPILER_PACKAGE_RECOMMENDS "gcc | clang, libc6-dev, ${codecs}")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "${codecs}, libzip4")
include(CPack)
