/* The reader of archives (.tar, .tar.gz) of traces, usually one a rank: each member that is
 * Chrome-trace JSON, plain or gzipped, becomes a trace of its own. Needs libarchive.
 *
 * Members are read one after another from the stream, so what is in memory are the traces' records
 * and one window of text, whatever the archive's size. A trace's path is that of the archive and
 * the member's name in it; traces come out by rank. Members of other kinds are named in a note of
 * the first trace. */
#ifndef DL_TRACE_READERS_ARCHIVE_H
#define DL_TRACE_READERS_ARCHIVE_H

#include "trace/readers/reader.h"

extern const dl_trace_reader dl_archive_reader;

#endif
