/* The .dlt trace file: append-only, chunked, checksummed, one per process.
 *
 *   header   magic "DLTRACE\n", u32 version, u32 reserved
 *   chunk    u32 type, u32 payload bytes, u32 CRC-32 of type+length+payload, payload;  repeated
 *   types    META (key\0value\0 ...), STRINGS (u32 first id, text\0 ...), RECORDS, ACTIVITIES, END
 *            (empty); ids count from 1 without gaps; id 0 is the empty name and not in the file
 *   RECORDS, ACTIVITIES
 *            u32 count, then each record (activity) delta- and varint-coded against those before it
 *            in the chunk, so that a chunk can be read without the others; bytes: codec.h
 *
 * All integers little-endian. A reader reads everything up to the last complete chunk: a killed run
 * keeps its trace, and `complete` tells whether END was reached.
 *
 * Writing: a dl_trace_writer is shared by the threads of a process; each thread appends through a
 * dl_trace_stream of its own, without locks, into a chunk buffer that is written with one write(2)
 * when it is full or, of records, DL_TRACE_FLUSH_NS after the last one. A write error (disk full)
 * stops the writing, never the program: it is reported by dl_trace_writer_close.
 */
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

/* Creates (overwrites) `path`. *writer is destroyed by dl_trace_writer_close. */
dl_status dl_trace_writer_open(dl_trace_writer **writer, const char *path,
                               dl_error *err) DL_MUST_CHECK;

/* Limits the file to `bytes`: the first chunk of records, activities or names that would exceed it
 * is not written, and none after it; their contents count as lost. META and END are still written
 * (so the file may exceed the limit by those). Without a call there is no limit. Any thread; data
 * already in the file stays. */
void dl_trace_writer_limit(dl_trace_writer *writer, uint64_t bytes);

/* State of a writer's file. */
typedef struct dl_trace_writer_state {
    /* Records and activities that were not written, because of the limit or of a write error. Those
     * still in streams are not counted: flush these first. */
    uint64_t lost;
    /* errno of the first failed write; 0 = none. After it nothing more is written, except, if the
     * file is full (ENOSPC, EDQUOT, EFBIG), the records of the chunk for which there was room, and
     * META. */
    int error;
    /* Number of times that the file was reopened because the program had closed its descriptor or
     * reused the number for another file (dl_held_file). No data are lost then. */
    uint32_t reopened;
} dl_trace_writer_state;

/* Any thread. */
dl_trace_writer_state dl_trace_writer_look(dl_trace_writer *writer);

/* Writes key = value about the whole run to the file immediately. Any thread, any time. A repeated
 * key overrides the earlier value when read. */
void dl_trace_writer_meta(dl_trace_writer *writer, const char *key, const char *value);

/* dl_trace_writer_meta with a value in printf format. */
void dl_trace_writer_metaf(dl_trace_writer *writer, const char *key, const char *format, ...)
    DL_PRINTF(3, 4);

/* Id of `text`, the same for equal texts; 0 is the empty text, for records without a name. Writes a
 * new text to the file immediately; beyond the limit it is dropped and gets 0. Takes a lock, so
 * intern names before the timed part. */
uint32_t dl_trace_writer_intern(dl_trace_writer *writer, const char *text);

/* A stream for one thread. Owned by the writer. */
dl_trace_stream *dl_trace_writer_stream(dl_trace_writer *writer);

/* Appends a copy of *record (valid by dl_dlt_valid in codec.h, name an id of this writer; anything
 * else is a broken invariant). Only from the stream's own thread. Never blocks on other threads
 * except while a full chunk is being written. */
void dl_trace_stream_append(dl_trace_stream *stream, const dl_record *record);

/* Appends a copy of *activity (valid, name and detail ids of this writer; anything else is a broken
 * invariant), otherwise as dl_trace_stream_append. A stream may hold both. Activities arrive late
 * and unordered in time (CUPTI delivers whole buffers), so only full chunks are written
 * automatically: to keep a killed run's last activities, call dl_trace_stream_flush every
 * DL_TRACE_FLUSH_NS. */
void dl_trace_stream_append_activity(dl_trace_stream *stream, const dl_activity *activity);

/* Writes the stream's remaining contents. Only from the stream's own thread (or after it has
 * ended), or while no thread appends. */
void dl_trace_stream_flush(dl_trace_stream *stream);

/* Flushes all streams, writes END, closes, frees. The threads must have ended. Reports the first
 * write error with the count of records lost; *writer is NULL afterwards in any case. A file cut
 * by its limit is no error. */
dl_status dl_trace_writer_close(dl_trace_writer **writer, dl_error *err) DL_MUST_CHECK;

/* For the child of a fork, where the file is the parent's and the other threads are gone: closes
 * the child's descriptor and frees the writer without writing anything or waiting for a lock. If
 * another thread was just changing the writer, its memory is not freed, as it may be in any state.
 * *writer is NULL afterwards. */
void dl_trace_writer_abandon(dl_trace_writer **writer);

/* A trace in memory. Owns everything; release with dl_trace_free. */
typedef struct dl_trace {
    char *path;
    bool complete;          /* END was there */
    uint64_t bytes_ignored; /* after the last whole chunk, or after END */
    dl_record *records;     /* by chunk; each worker's in its own order */
    size_t record_count;
    dl_activity *activities; /* by chunk */
    size_t activity_count;
    size_t late_ends;      /* activities that were cut (dl_activities_cut_late_ends), */
    int64_t late_worst_ns; /* and the largest cut */
    char **strings;        /* names by id; [0] is "" */
    size_t string_count;
    char **meta;           /* key, value, key, value, ... */
    size_t meta_count;     /* pairs */
    uint32_t worker_count; /* highest worker + 1; 0 without records */
} dl_trace;

/* Reads `path` into zeroed `trace`. DL_ERR_FORMAT for another kind of file, an unknown version, or
 * without a complete chunk. A damaged or cut chunk ends the reading (`complete` false) without an
 * error. */
dl_status dl_trace_read(dl_trace *trace, const char *path, dl_error *err) DL_MUST_CHECK;
dl_status dl_trace_read_bytes(dl_trace *trace, const char *name, const void *data, size_t bytes,
                              dl_error *err) DL_MUST_CHECK;
void dl_trace_free(dl_trace *trace);

/* Value of a meta key, or NULL. Borrowed. */
const char *dl_trace_meta(const dl_trace *trace, const char *key);

/* Name of a record; "" if it has none. Borrowed. */
const char *dl_trace_name(const dl_trace *trace, const dl_record *record);

/* Meta keys that dlprof writes (all values are text):
 *   program, version, command     which program made it and with what settings
 *   kind                          "train", "bench" or "overhead"
 *   record_ns, record_low_ns, record_high_ns, pairs
 *                                 overhead: recording's cost per record, its interval, number of
 *                                 pairs of runs
 *   capture_cost.light, ...        overhead: cost of dlprof run to a program by preset, and with
 *                                 ".nvtx" of its library alone (trace/activity/capture_cost.h)
 *   host, pid                     of the process
 *   captured                      preset of dlprof run, where it records the process's CUDA calls
 *   model, parameters             model's name; number of parameters (count)
 *   parameter_bytes               bytes of one copy of the parameters
 *   optimizer, state_bytes        name; bytes of one worker's optimizer state
 *   gradient_bytes                bytes of one worker's gradients
 *   activation_bytes              bytes of one sample's activations and their gradients
 *   sync, interval, n, bound, average_state, fragments, lag, mixing, server_threads,
 *   staleness_rate, rate_drop_epochs, workers, batch (all workers), steps, seed
 *                                 settings of the run
 *   quorum, quorum_max, grace_s, grace, scan_s, weight_power, wait_s
 *                                 of async_average: its syncer's
 *   uploads_applied, uploads_too_stale, uploads_superseded, uploads_unmerged, merges
 *                                 what became of its uploads
 *   others_permille, steal_permille
 *                                 share of the processors' time that other programs used, and that
 *                                 the host of a virtual machine took
 *   rank, world_size, local_rank, rank_exchange
 *                                 of a rank, whose workers are some of `workers`: its number, the
 *                                 number of ranks, its number on its host; "mpi" or "nccl"
 *   slow                          "1:2" = worker 1 slowed twofold; "" = none
 *   work                          "uniform:0.4": samples of steps were drawn; missing: they are
 *                                 equal
 *   wait                          "spin" or "block"
 *   data                          "mnist" or "synthetic"
 *   device                        model name of the CPU or GPU; cores: number of cores used
 *   device_count, shared_gpu, dispatch, host_memory, math, where
 *                                 on GPUs: their number; 1 if workers share one; "threads" or
 *                                 "single"; "pinned" or "pageable"; precision of products' factors,
 *                                 "fp32", "tf32" or "fp16"; "cpu", "gpu:NUMBER" or "allreduce"
 *   device_memory_bytes           on GPUs: used on the first one at the end, by all processes
 *   compress                      of gradients: "none", "fp16" or "1bit"
 *   stopped                       the signal that ended the run early, "SIGINT" or "SIGTERM"
 *   failed                        why the run failed; its last step may lack an exchange
 *   clock_start_ns                CLOCK_MONOTONIC at the start
 *   wall_start                    ISO 8601 UTC time of the start
 * and about the process of a recorded program ("kind" is "run"):
 *   clock                         of the activities' times: "realtime"
 *   preset, capture_cost          extent of recording; its cost to the program, or "unknown"
 *   host, pid, rank, world_size, local_rank      if known; numbers from 0
 *   thread.1234                   name of thread 1234
 *   more of them                  profiler/inject/capture.c, profiler/inject/capture.h */

/* Value of a meta key, "" if it is missing. Borrowed. */
const char *dl_trace_meta_text(const dl_trace *trace, const char *key);

/* The meta key's value if it is a whole number in low..high, else `fallback`. */
int64_t dl_trace_meta_int(const dl_trace *trace, const char *key, int64_t low, int64_t high,
                          int64_t fallback);

/* Sets *number to the meta key's whole number >= 0, or to `fallback` if the key is missing.
 * DL_ERR_PARSE, with the trace's path and the key, for any other value; *number is then unchanged.
 */
dl_status dl_trace_meta_read_int(const dl_trace *trace, const char *key, int64_t fallback,
                                 int64_t *number, dl_error *err) DL_MUST_CHECK;

/* An append-only file held open inside a traced program, which may close all its descriptors (as
 * daemons do) or reuse their numbers for other files. */

typedef struct dl_held_file {
    int fd;
    dev_t device; /* with the inode, identifies the file */
    ino_t inode;
    uint32_t reopened; /* times that the descriptor was lost and found again */
} dl_held_file;

/* Creates (overwrites) `path`. Returns 0 or errno. */
int dl_held_file_open(dl_held_file *file, const char *path);

/* Appends data[bytes]. If the descriptor is closed or refers to another file, reopens `path` first;
 * EBADF if `path` is no longer the same file. Returns 0 or errno. Beyond the limit on file sizes
 * (RLIMIT_FSIZE) it returns EFBIG, and SIGXFSZ does not end the program. */
int dl_held_file_write(dl_held_file *file, const char *path, const void *data, size_t bytes);

/* Closes the descriptor, unless it now refers to another file. Returns 0 or errno. */
int dl_held_file_close(dl_held_file *file);

#endif
