# The Python package (python/dlscale), and the wheels in clean environments, which needs PyPI.
add_test(NAME python_package COMMAND ${DL_PYTHON3} ${CMAKE_CURRENT_LIST_DIR}/test_dlscale.py
         ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
set_tests_properties(python_package PROPERTIES LABELS "unit;release_only")
add_test(NAME wheel COMMAND ${PROJECT_SOURCE_DIR}/scripts/wheel.sh)
set_tests_properties(wheel PROPERTIES LABELS "slow;release_only" SKIP_RETURN_CODE 77 TIMEOUT 3600)
