/* The reader of Nsight Systems' SQLite exports (nsys export --type sqlite), schemas 3.x.
 *
 *   table                              becomes
 *   CUPTI_ACTIVITY_KIND_KERNEL         KERNEL
 *   ..._MEMCPY, ..._MEMSET             MEMCPY, MEMSET
 *   ..._GRAPH_TRACE                    GRAPH
 *   ..._RUNTIME                        CALL, without the version behind its name ("_v7000")
 *   ..._SYNCHRONIZATION                SYNC; object = eventSyncId, before schema 3.24 eventId
 *   ..._CUDA_EVENT                     EVENT
 *   ..._OVERHEAD, PROFILER_OVERHEAD    OVERHEAD
 *   NVTX_EVENTS                        RANGE, MARK; detail = domain; of PyTorch's texts "aten::mul,
 *                                      seq = 1, op_id = 2" the name, object = op_id; and
 *                                      COLLECTIVE, without bytes, of those that call one
 *
 * One trace a process that has device work. Tables and columns differ between versions, and tables
 * of what never happened are missing: what is not there is taken as unknown. Ranks are not
 * recorded: several processes are numbered by device. Times count from the start of the session. */
#ifndef DL_TRACE_READERS_NSYS_H
#define DL_TRACE_READERS_NSYS_H

#include "trace/readers/reader.h"

extern const dl_trace_reader dl_nsys_reader;

#endif
