# The Python package (python/dlscale), and its wheel in a clean environment, which needs PyPI.
if(DL_PYTHON3)
    add_test(NAME python_package COMMAND ${DL_PYTHON3} ${CMAKE_CURRENT_LIST_DIR}/test_dlscale.py
             ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
    set_tests_properties(python_package PROPERTIES LABELS "unit;release_only")
    add_test(NAME wheel COMMAND ${PROJECT_SOURCE_DIR}/scripts/wheel.sh)
    set_tests_properties(wheel PROPERTIES LABELS "slow;release_only" TIMEOUT 1500)
endif()
