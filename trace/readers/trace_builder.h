/* A dl_trace that grows: for the readers of other profilers' files. */
#ifndef DL_TRACE_READERS_TRACE_BUILDER_H
#define DL_TRACE_READERS_TRACE_BUILDER_H

#include <stddef.h>
#include <stdint.h>

#include "trace/dlt.h"

/* Owns the trace until dl_trace_builder_finish; release with dl_trace_builder_free. */
typedef struct dl_trace_builder {
    dl_trace trace;
    size_t activity_room, string_room;
    uint32_t *slots;  /* [slot_count] hash table: string id, or 0 */
    uint64_t *hashes; /* [string_room] of the strings */
    size_t slot_count;
    uint64_t invalid; /* activities that were refused */
} dl_trace_builder;

/* An empty trace with the name `path`, complete. */
void dl_trace_builder_init(dl_trace_builder *builder, const char *path);
void dl_trace_builder_free(dl_trace_builder *builder);

/* Id of text[bytes], the same for equal texts; 0 for the empty one. A NUL within ends it. */
uint32_t dl_trace_builder_intern(dl_trace_builder *builder, const char *text, size_t bytes);
uint32_t dl_trace_builder_name(dl_trace_builder *builder, const char *text);

/* Appends a copy if it is valid (dl_activity_valid), else counts it as invalid. */
void dl_trace_builder_append(dl_trace_builder *builder, const dl_activity *activity);

/* Sets a meta key that is not yet there. `key` is copied, the value is formatted. */
void dl_trace_builder_meta(dl_trace_builder *builder, const char *key, const char *format, ...)
    DL_PRINTF(3, 4);

/* Gives the trace away, with the meta key "invalid_records"; the builder is empty then. */
void dl_trace_builder_finish(dl_trace_builder *builder, dl_trace *trace);

#endif
