# Simulations of the studies that the project started from: scenarios/seeds.
add_test(NAME seeds COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_seeds.sh $<TARGET_FILE:dlsim>
         WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(seeds PROPERTIES LABELS model)

add_test(NAME test_pollux COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_pollux.sh $<TARGET_FILE:dlcal>
         $<TARGET_FILE:dlsim> WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_pollux PROPERTIES LABELS "model;slow")

add_test(NAME test_judge_intervals
         COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_judge_intervals.sh $<TARGET_FILE:dlsim>
         WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_judge_intervals PROPERTIES LABELS model)

add_test(NAME test_local_sgd_report
         COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_local_sgd_report.sh $<TARGET_FILE:dlsim>
         WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_local_sgd_report PROPERTIES LABELS "model;slow")

add_test(NAME report COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_reproduce.sh $<TARGET_FILE:dlsim>
         $<TARGET_FILE:dlcal> WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(report PROPERTIES LABELS model SKIP_RETURN_CODE 77)

add_test(NAME pages COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_pages.sh $<TARGET_FILE:dlsim>
         $<TARGET_FILE:dlcal> WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(pages PROPERTIES LABELS model SKIP_RETURN_CODE 77)
