# Runs a scenario on 1 and 2 threads, or on the numbers in THREADS, and compares the results with
# the expected ones byte by byte, except for the line with the program's version:
#   cmake -DDLSIM=dlsim -DSCENARIO=x.ini [-DTHREADS=2] [-DUPDATE=ON] -P run.cmake
# x.expected.csv has the results, x.histogram.csv the staleness. UPDATE rewrites them.
get_filename_component(folder ${SCENARIO} DIRECTORY)
get_filename_component(name ${SCENARIO} NAME_WE)

function(read_without_version path result)
    file(READ ${path} text)
    string(REGEX REPLACE "# version: [^\n]*\n" "" text "${text}")
    set(${result} "${text}" PARENT_SCOPE)
endfunction()

if(NOT THREADS)
    set(THREADS 1 2)
endif()
foreach(threads ${THREADS})
    set(results golden_${name}_${threads}.csv)
    set(histogram golden_${name}_${threads}_histogram.csv)
    execute_process(COMMAND ${DLSIM} ${SCENARIO} -o ${results} --histogram ${histogram}
                            --threads ${threads} --quiet
                    RESULT_VARIABLE status ERROR_VARIABLE message)
    if(status)
        message(FATAL_ERROR "dlsim ${SCENARIO}: ${status} ${message}")
    endif()
    foreach(pair ${results}:expected ${histogram}:histogram)
        string(REPLACE ":" ";" pair ${pair})
        list(GET pair 0 file)
        list(GET pair 1 kind)
        set(kept ${folder}/${name}.${kind}.csv)
        read_without_version(${file} found)
        if(UPDATE)
            file(WRITE ${kept} "${found}")
        endif()
        read_without_version(${kept} expected)
        if(NOT found STREQUAL expected)
            message(FATAL_ERROR "${file} (${threads} threads) differs from ${kept}")
        endif()
        file(REMOVE ${file})
    endforeach()
endforeach()
