# Packages: in the build folder, `cpack -G DEB` makes packages for Debian and Ubuntu that follow
# their policy for shared libraries; `cpack -G TGZ` makes archives.
set(DL_MAINTAINER "The dlscale authors <dlscale@example.org>" CACHE STRING
    "Who makes the packages: name and e-mail address")
execute_process(COMMAND date --utc -R -d ${DL_RELEASE_DATE} OUTPUT_VARIABLE date
                OUTPUT_STRIP_TRAILING_WHITESPACE)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/changelog
"dlscale (${PROJECT_VERSION}) unstable; urgency=medium

  * Release ${PROJECT_VERSION}: see CHANGELOG.md in /usr/share/doc/dlscale.

 -- ${DL_MAINTAINER}  ${date}
")
execute_process(COMMAND ${GZIP_PROGRAM} -9 -n -f -k ${CMAKE_CURRENT_BINARY_DIR}/changelog)

# dl_debian(COMPONENT PACKAGE SECTION SUMMARY DESCRIPTION...)
macro(dl_debian component package section summary)
    string(TOUPPER ${component} upper)
    set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
    set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
    string(JOIN "\n" text "${summary}" ${ARGN})
    set(CPACK_COMPONENT_${upper}_DESCRIPTION "${text}")
    # Only in packages: an installation has the licences in its documentation.
    install(FILES copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package}
            COMPONENT ${component} EXCLUDE_FROM_ALL)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/changelog.gz COMPONENT ${component} EXCLUDE_FROM_ALL
            DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package})
endmacro()
dl_debian(programs dlscale science "profile, calibrate and simulate data-parallel training"
    "dlprof trains neural networks for real, or records another program, and"
    "measures what a step and its communication cost; dlcal fits a cost file;"
    "dlsim predicts by discrete-event simulation the speedup and the gradient"
    "staleness of any number of workers and way of synchronizing.")
dl_debian(library libdlscale0 libs "simulator of data-parallel training - shared library"
    "A scenario goes in, a table of predicted throughput, speedup and gradient"
    "staleness comes out: what dlsim does, for other programs.")
dl_debian(development libdlscale-dev libdevel
    "simulator of data-parallel training - development files"
    "The header and the pkg-config file of libdlscale.")
if(TARGET dlscale_mpi)
    dl_debian(mpi dlscale-mpi science "dlscale as one job of many processes, by MPI"
        "With it, what mpirun starts of dlsim, dlcal and dlprof train shares the work.")
    set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "dlscale (= ${PROJECT_VERSION})")
    set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SUGGESTS dlscale-mpi)
endif()
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_DEPENDS libopenblas0) # loaded, not linked
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_RECOMMENDS "gnuplot-nox | gnuplot")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libdlscale0 (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_SOURCE_DIR}/triggers)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")

set(CPACK_PACKAGE_NAME dlscale)
set(CPACK_PACKAGE_VENDOR "The dlscale authors")
set(CPACK_PACKAGE_CONTACT "${DL_MAINTAINER}")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL programs library development)
if(TARGET dlscale_mpi)
    list(APPEND CPACK_COMPONENTS_ALL mpi)
endif()
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
    GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
