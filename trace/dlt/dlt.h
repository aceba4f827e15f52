/* The .dlt trace file: append-only, chunked, checksummed, one per process.
 *
 *   header   magic "DLTRACE\n", u32 version, u32 reserved
 *   chunk    u32 type, u32 payload bytes, u32 CRC-32 of type+length+payload, payload;  repeated
 *   types    META (key\0value\0 ...), STRINGS (u32 first id, text\0 ...), RECORDS, ACTIVITIES, END
 *            (empty); ids count from 1 without gaps; id 0 is the empty name and not in the file
 *   RECORDS, ACTIVITIES
 *            u32 count, then each record (activity) delta- and varint-coded against the previous
 *            ones in the chunk, so that a chunk can be read independently; bytes: codec.h
 *
 * All integers are little-endian. A reader reads everything up to the last complete chunk: a killed
 * run keeps its trace, and `complete` tells whether END was reached.
 *
 * Writing: the threads of a process share a dl_trace_writer. Each thread appends through its own
 * dl_trace_stream, without locks, into a chunk buffer. The buffer is written with one write(2) when
 * it is full or, for records, DL_TRACE_FLUSH_NS after the last flush. A write error (disk full)
 * stops the writing, never the program; dl_trace_writer_close reports it. */
#ifndef DL_TRACE_DLT_DLT_H
#define DL_TRACE_DLT_DLT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/status.h"
#include "trace/activity/activity.h"
#include "trace/record.h"

#define DL_TRACE_FLUSH_NS 500000000LL

typedef struct dl_trace_writer dl_trace_writer;

typedef struct dl_trace_stream dl_trace_stream;

/* Creates (overwrites) `path`. Release *writer with dl_trace_writer_close. */
dl_status dl_trace_writer_open(dl_trace_writer **writer, const char *path,
                               dl_error *err) DL_MUST_CHECK;

/* Limits the file to `bytes`: the first chunk of records, activities or names that would exceed it
 * and all later ones are not written; their records and activities count as lost. META and END are
 * still written, so the file may exceed the limit by their size. Without a call there is no limit.
 * Callable from any thread; data already in the file are kept. */
void dl_trace_writer_limit(dl_trace_writer *writer, uint64_t bytes);

/* State of a writer's file. */
typedef struct dl_trace_writer_state {
    /* Records and activities that were not written because of the limit or a write error. Excludes
     * those still in streams: flush the streams first. */
    uint64_t lost;
    /* errno of the first failed write; 0: none. Nothing is written after it, with one exception: if
     * the file is full (ENOSPC, EDQUOT, EFBIG), the records of the chunk that fit, and META. */
    int error;
    /* Number of times that the file was reopened because the program had closed its descriptor or
     * reused the descriptor's number for another file (dl_held_file). Reopening loses no data. */
    uint32_t reopened;
} dl_trace_writer_state;

/* Returns the state of the file; callable from any thread. */
dl_trace_writer_state dl_trace_writer_look(dl_trace_writer *writer);

/* Writes key = value about the whole run to the file immediately. Callable from any thread at any
 * time. On reading, the last value of a repeated key applies. */
void dl_trace_writer_meta(dl_trace_writer *writer, const char *key, const char *value);

/* dl_trace_writer_meta with a value in printf format. */
void dl_trace_writer_metaf(dl_trace_writer *writer, const char *key, const char *format, ...)
    DL_PRINTF(3, 4);

/* Returns the id of `text`, the same for equal texts; 0 for the empty text, which means no name.
 * Writes a new text to the file immediately; beyond the limit the text is dropped and gets id 0.
 * Takes a lock, so intern names before the timed part. */
uint32_t dl_trace_writer_intern(dl_trace_writer *writer, const char *text);

/* Returns a new stream for one thread; owned by the writer. */
dl_trace_stream *dl_trace_writer_stream(dl_trace_writer *writer);

/* Appends a copy of *record, which must be valid (dl_dlt_valid in codec.h) with a name id of this
 * writer. Callable only from the stream's own thread. Blocks on other threads only while a full or
 * due chunk is being written. */
void dl_trace_stream_append(dl_trace_stream *stream, const dl_record *record);

/* Appends a copy of *activity, which must be valid with name and detail ids of this writer;
 * otherwise like dl_trace_stream_append. A stream may hold records and activities. Activities
 * arrive late and out of order (CUPTI delivers whole buffers), so only full chunks are written
 * automatically: call dl_trace_stream_flush every DL_TRACE_FLUSH_NS to keep the last activities of
 * a killed run. */
void dl_trace_stream_append_activity(dl_trace_stream *stream, const dl_activity *activity);

/* Writes the stream's remaining contents. Callable only from the stream's own thread (or after it
 * has ended), or while no thread appends. */
void dl_trace_stream_flush(dl_trace_stream *stream);

/* Flushes all streams, writes END, closes the file and frees the writer. The threads must have
 * ended. Returns the first write error with the number of lost records; *writer is NULL afterwards
 * in any case. Reaching the limit is not an error. */
dl_status dl_trace_writer_close(dl_trace_writer **writer, dl_error *err) DL_MUST_CHECK;

/* For the child of a fork, in which the file belongs to the parent and the other threads are gone:
 * closes the child's descriptor and frees the writer without writing anything or waiting for a
 * lock. If another thread was changing the writer during the fork, its memory is not freed, as it
 * may be inconsistent. *writer is NULL afterwards. */
void dl_trace_writer_abandon(dl_trace_writer **writer);

/* A trace in memory. Owns all its memory; release with dl_trace_free. */
typedef struct dl_trace {
    char *path;
    bool complete;          /* the file contains END */
    uint64_t bytes_ignored; /* bytes after the last whole chunk, or after END */
    dl_record *records;     /* in file order, which is the recorded order for each worker */
    size_t record_count;
    dl_activity *activities; /* in file order */
    size_t activity_count;
    size_t late_ends;      /* number of activities truncated by dl_activities_cut_late_ends */
    int64_t late_worst_ns; /* largest truncation */
    char **strings;        /* [string_count] names by id; [0] is "" */
    size_t string_count;
    char **meta;           /* key, value, key, value, ... */
    size_t meta_count;     /* number of pairs */
    uint32_t worker_count; /* highest worker + 1; 0 without records */
} dl_trace;

/* Reads `path` into `trace`, which must be zeroed. Returns DL_ERR_FORMAT for another kind of file,
 * an unknown version, or a file without a complete chunk. A damaged or truncated chunk ends the
 * reading (`complete` is false) without an error. */
dl_status dl_trace_read(dl_trace *trace, const char *path, dl_error *err) DL_MUST_CHECK;
dl_status dl_trace_read_bytes(dl_trace *trace, const char *name, const void *data, size_t bytes,
                              dl_error *err) DL_MUST_CHECK;
void dl_trace_free(dl_trace *trace);

/* Returns the value of a meta key, or NULL. Borrowed. */
const char *dl_trace_meta(const dl_trace *trace, const char *key);

/* Returns the name of a record; "" if it has none. Borrowed. */
const char *dl_trace_name(const dl_trace *trace, const dl_record *record);

/* Meta keys that dlprof writes (all values are text):
 *   program, version, command     program that made the trace, and its settings
 *   kind                          "train", "bench", "overhead" or "shapes"
 *   record_ns, record_low_ns, record_high_ns, pairs
 *                                 overhead: recording cost per record, its interval, number of
 *                                 pairs of runs
 *   capture_cost.light, ...       overhead: cost of dlprof run to a program by preset, and with
 *                                 ".nvtx" that of its library alone (trace/activity/capture_cost.h)
 *   host, pid                     of the process
 *   captured                      preset of dlprof run, if it records the process's CUDA calls
 *   model, parameters             name of the model; number of parameters (count)
 *   parameter_bytes               bytes of one copy of the parameters
 *   optimizer, state_bytes        name; bytes of one worker's optimizer state
 *   gradient_bytes                bytes of one worker's gradients
 *   activation_bytes              bytes of one sample's activations and their gradients
 *   precision                     number type of the model: "float", "double", "tf32" or "fp16"
 *   sync, interval, interval_by_speed, inside, sites, n, bound, average_state, fragments, lag,
 *   mixing, outer, outer_rate, outer_momentum, server_threads, staleness_rate, rate_drop_epochs,
 *   workers, worker_threads, batch (all workers), steps, seed
 *                                 settings of the run
 *   quorum, quorum_max, grace_s, grace, scan_s, weight_power, wait_s
 *                                 async_average: settings of its syncer
 *   uploads_applied, uploads_too_stale, uploads_superseded, uploads_unmerged, merges
 *                                 async_average: outcomes of uploads
 *   others_permille, steal_permille
 *                                 share of the processors' time used by other programs, and by the
 *                                 host of a virtual machine
 *   rank, world_size, local_rank, rank_exchange
 *                                 if the run has several ranks: the process's rank, number of
 *                                 ranks, rank on its host; "mpi" or "nccl"
 *   slow                          "1:2,3:1.5": workers 1 and 3 slowed by these factors; "": none
 *   work                          "uniform:0.4": steps drew their sample counts; missing: equal
 *                                 counts
 *   wait                          "spin" or "block"
 *   data                          "mnist", "cifar10" or "synthetic"
 *   device                        model name of the CPU or GPU; cores: number of cores used
 *   device_count, shared_gpu, dispatch, host_memory, math, where
 *                                 on GPUs: their number; 1 if workers share one; "threads" or
 *                                 "single"; "pinned" or "pageable"; precision of products' factors,
 *                                 "fp32", "tf32" or "fp16"; "cpu", "gpu:NUMBER" or "allreduce"
 *   device_memory_bytes           on GPUs: memory of the first one used at the end by all processes
 *   compress                      number type that gradients are sent as: "none", "fp16", "int8",
 *                                 "1bit", "topk" or "fp4"
 *   topk_frac                     topk: fraction of the numbers that is sent
 *   snapshot                      bench: "1" if it measures snapshots
 *   arithmetic, threads, workload shapes: precision of products' factors, threads, its workload
 *   stopped                       signal that ended the run early, "SIGINT" or "SIGTERM"
 *   failed                        reason of the run's failure; its last step may lack an exchange
 *   clock_start_ns                CLOCK_MONOTONIC at the start
 *   wall_start                    ISO 8601 UTC time of the start
 * Meta keys of the process of a recorded program ("kind" is "run"):
 *   clock                         clock of the activities: "realtime"
 *   preset, capture_cost          extent of recording; its cost to the program, or "unknown"
 *   graphs                        how CUDA graphs are recorded
 *   host, pid, rank, world_size, local_rank      if known; numbers from 0
 *   thread.1234                   name of thread 1234
 *   others                        see profiler/inject/capture.c, profiler/inject/capture.h */

/* Returns the value of a meta key, "" if it is missing. Borrowed. */
const char *dl_trace_meta_text(const dl_trace *trace, const char *key);

/* Returns the meta key's value if it is a whole number in low..high, else `fallback`. */
int64_t dl_trace_meta_int(const dl_trace *trace, const char *key, int64_t low, int64_t high,
                          int64_t fallback);

/* Sets *number to the meta key's whole number >= 0, or to `fallback` if the key is missing.
 * Returns DL_ERR_PARSE, with the trace's path and the key, for any other value; *number is then
 * unchanged. */
dl_status dl_trace_meta_read_int(const dl_trace *trace, const char *key, int64_t fallback,
                                 int64_t *number, dl_error *err) DL_MUST_CHECK;

/* An append-only file held open inside a traced program, which may close all its descriptors (as
 * daemons do) or reuse their numbers for other files. */

typedef struct dl_held_file {
    int fd;
    dev_t device; /* device and inode identify the file */
    ino_t inode;
    uint32_t reopened; /* number of times that the lost descriptor was reopened */
} dl_held_file;

/* Creates (overwrites) `path`. Returns 0 or an errno value. */
int dl_held_file_open(dl_held_file *file, const char *path);

/* Appends data[bytes]. If the descriptor is closed or refers to another file, reopens `path` first;
 * returns EBADF if `path` is no longer the same file. Returns 0 or an errno value. Beyond the limit
 * on file sizes (RLIMIT_FSIZE) it returns EFBIG without raising SIGXFSZ. */
int dl_held_file_write(dl_held_file *file, const char *path, const void *data, size_t bytes);

/* Closes the descriptor, unless it now refers to another file. Returns 0 or an errno value. */
int dl_held_file_close(dl_held_file *file);

#endif
