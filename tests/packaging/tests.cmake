# The installed tree, moved and used from another folder.
add_test(NAME test_installed COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_installed.sh ${CMAKE_BINARY_DIR}
         ${PROJECT_SOURCE_DIR} ${CMAKE_C_COMPILER} "${DL_SANITIZE}"
         $<$<TARGET_EXISTS:nvtx_target>:$<TARGET_FILE:nvtx_target>>)
set_tests_properties(test_installed PROPERTIES LABELS unit)

# The Debian packages.
add_test(NAME test_package COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_package.sh ${CMAKE_BINARY_DIR})
set_tests_properties(test_package PROPERTIES LABELS slow SKIP_RETURN_CODE 77)
