/* Stands in for the CUDA driver, under its name libcuda.so.1: loads the injected library in cuInit
 * as the real one does, and tells a tool (the double of CUPTI) what a program does. The same library
 * has what tests/gpu/truth.c takes of CUDA's runtime (runtime_double.c). */
#ifndef DL_TESTS_DOUBLES_DRIVER_DOUBLE_H
#define DL_TESTS_DOUBLES_DRIVER_DOUBLE_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum driver_work_kind {
    DRIVER_KERNEL,
    DRIVER_COPY,
    DRIVER_PEER_COPY,
    DRIVER_MEMSET,
    DRIVER_GRAPH /* the whole of a graph, whose nodes are told too */
} driver_work_kind;

typedef enum driver_memory { DRIVER_PAGEABLE, DRIVER_PINNED, DRIVER_DEVICE } driver_memory;

/* Work of a device. */
typedef struct driver_work {
    driver_work_kind kind;
    const char *name;               /* of a kernel */
    unsigned device, peer, stream;  /* peer: where a copy between devices goes */
    driver_memory from, to;         /* of a copy */
    size_t bytes;                   /* of a copy or memset */
    unsigned graph, node;           /* of work in a graph; 0 = none */
    uint64_t start_ns, duration_ns; /* start 0: when its call begins */
} driver_work;

/* A call into the runtime or the driver, by CUPTI's number. */
typedef struct driver_call {
    int of_driver;
    unsigned id;
} driver_call;

/* What a tool is told, in the thread of the call. */
typedef struct driver_tool {
    void (*context_created)(unsigned device);
    void (*worked)(const driver_work *work, unsigned correlation);
    void (*called)(driver_call call, unsigned correlation, uint64_t start_ns); /* at its end */
    void (*waited)(unsigned correlation);       /* in cudaDeviceSynchronize */
    void (*synchronized)(unsigned correlation); /* in cuCtxSynchronize */
    void (*recorded)(unsigned correlation);     /* an event */
} driver_tool;

/* NULL = none any more. */
void driver_double_set_tool(const driver_tool *tool);

/* CLOCK_REALTIME, which is CUPTI's. */
uint64_t driver_double_now_ns(void);

/* The tool tells that it begins to give back all it has recorded. */
void driver_double_flushes(void);

/* Waits for so many more of these; after two, what was recorded before the call has been taken from
 * the tool and written, since the same thread asks for both. Aborts after a minute; returns at once
 * where there is no tool. */
void driver_double_await_flushes(unsigned count);

/* What a program does. Correlations count from 1, those of waits included. */
void driver_double_create_context(unsigned device);
unsigned
driver_double_launch(const char *kernel); /* by cudaLaunchKernel, on stream 7 of device 0 */
void driver_double_wait(void);
void driver_double_copy(size_t bytes); /* from page-locked memory to the device */
void driver_double_record(void);

/* A call that starts works[count]. */
unsigned driver_double_call(driver_call call, const driver_work *works, size_t count);

/* An operation of the fake device: a copy where bytes are copied, else a kernel. Starts the driver and
 * makes the device's context if it is the first. */
void driver_double_operation(int device, const char *name, size_t copied_bytes, bool to_device);

#endif
