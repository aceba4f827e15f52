# Closed forms in one program: one test per group; without arguments it prints the whole table.
file(GLOB oracles ${CMAKE_CURRENT_SOURCE_DIR}/oracles/*.c)
add_executable(oracles ${oracles})
target_include_directories(oracles SYSTEM PRIVATE ${CMOCKA_INCLUDE_DIR})
target_link_libraries(oracles PRIVATE dl_options dl_sim ${CMOCKA_LIBRARY})
foreach(group staleness softsync ssp time amounts gpus monotone pipeline local_sgd input)
    add_test(NAME oracles_${group} COMMAND oracles ${group})
    set_tests_properties(oracles_${group} PROPERTIES LABELS model)
endforeach()
