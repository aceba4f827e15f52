/* Stands in for the CUDA driver, under its name libcuda.so.1: loads the injected library in cuInit
 * as the real one does, and tells a tool (the double of CUPTI) what a program does. */
#ifndef DL_TESTS_DOUBLES_DRIVER_DOUBLE_H
#define DL_TESTS_DOUBLES_DRIVER_DOUBLE_H

#include <cuda.h>

/* What a tool is told, in the thread of the call. */
typedef struct driver_tool {
    void (*context_created)(void);
    void (*launched)(const char *kernel, unsigned correlation);
    void (*waited)(unsigned correlation);               /* in cudaDeviceSynchronize */
    void (*synchronized)(unsigned correlation);         /* in cuCtxSynchronize */
    void (*copied)(unsigned correlation, size_t bytes); /* from page-locked memory to the device */
    void (*recorded)(unsigned correlation);             /* an event */
} driver_tool;

/* NULL = none any more. */
void driver_double_set_tool(const driver_tool *tool);

/* The tool tells that it begins to give back all it has recorded. */
void driver_double_flushes(void);

/* Waits for so many more of these; after two, what was recorded before the call has been taken from
 * the tool and written, since the same thread asks for both. Aborts after a minute. */
void driver_double_await_flushes(unsigned count);

/* What a program does. Correlations count from 1, those of waits included. */
void driver_double_create_context(void);
unsigned driver_double_launch(const char *kernel);
void driver_double_wait(void);
void driver_double_copy(size_t bytes);
void driver_double_record(void);

#endif
