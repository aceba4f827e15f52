#include "trace/readers/readers_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

/* 2^64 / golden ratio, odd. */
#define HASH_FACTOR UINT64_C(0x9E3779B97F4A7C15)

/* Hashes eight bytes per round, since kernel names are hundreds of bytes long. */
static uint64_t hash_text(const char *text, size_t bytes)
{
    uint64_t hash = bytes * HASH_FACTOR;
    for (; bytes >= sizeof(uint64_t); text += sizeof(uint64_t), bytes -= sizeof(uint64_t)) {
        uint64_t part;
        memcpy(&part, text, sizeof part);
        hash = (hash ^ part) * HASH_FACTOR;
        hash ^= hash >> 32;
    }
    uint64_t part = 0;
    memcpy(&part, text, bytes);
    hash = (hash ^ part) * HASH_FACTOR;
    return hash ^ (hash >> 32);
}

static void grow_strings(dl_trace_builder *builder)
{
    size_t room = builder->string_room == 0 ? 1024 : 2 * builder->string_room;
    builder->trace.strings = dl_realloc(builder->trace.strings, room, sizeof(char *), "names");
    builder->hashes = dl_realloc(builder->hashes, room, sizeof(uint64_t), "names");
    builder->string_room = room;
    /* Keeps the table at most half full. */
    builder->slot_count = 2 * room;
    free(builder->slots);
    builder->slots = dl_calloc(builder->slot_count, sizeof *builder->slots, "names");
    for (size_t id = 1; id < builder->trace.string_count; id++) {
        size_t slot = builder->hashes[id] & (builder->slot_count - 1);
        while (builder->slots[slot] != 0)
            slot = (slot + 1) & (builder->slot_count - 1);
        builder->slots[slot] = (uint32_t)id;
    }
}

void dl_trace_builder_init(dl_trace_builder *builder, const char *path)
{
    *builder = (dl_trace_builder){.trace = {.path = dl_strdup(path), .complete = true}};
    grow_strings(builder);
    builder->trace.strings[builder->trace.string_count++] = dl_strdup("");
}

void dl_trace_builder_free(dl_trace_builder *builder)
{
    free(builder->slots);
    free(builder->hashes);
    dl_trace_free(&builder->trace);
    *builder = (dl_trace_builder){0};
}

uint32_t dl_trace_builder_intern(dl_trace_builder *builder, const char *text, size_t bytes)
{
    bytes = strnlen(text, bytes);
    if (bytes == 0) return 0;
    if (builder->trace.string_count == builder->string_room) grow_strings(builder);
    uint64_t hash = hash_text(text, bytes);
    size_t slot = hash & (builder->slot_count - 1);
    for (; builder->slots[slot] != 0; slot = (slot + 1) & (builder->slot_count - 1)) {
        uint32_t id = builder->slots[slot];
        const char *other = builder->trace.strings[id];
        if (builder->hashes[id] == hash && strncmp(other, text, bytes) == 0 && other[bytes] == '\0')
            return id;
    }
    uint32_t id = (uint32_t)builder->trace.string_count++;
    builder->trace.strings[id] = dl_strndup(text, bytes);
    builder->hashes[id] = hash;
    builder->slots[slot] = id;
    return id;
}

uint32_t dl_trace_builder_name(dl_trace_builder *builder, const char *text)
{
    return dl_trace_builder_intern(builder, text, strlen(text));
}

void dl_trace_builder_append(dl_trace_builder *builder, const dl_activity *activity)
{
    dl_trace *trace = &builder->trace;
    if (!dl_activity_valid(activity)) {
        builder->invalid++;
        return;
    }
    DL_APPEND(trace->activities, trace->activity_count, "activities") = *activity;
}

void dl_trace_builder_meta(dl_trace_builder *builder, const char *key, const char *format, ...)
{
    dl_trace *trace = &builder->trace;
    va_list args;
    if (dl_trace_meta(trace, key) != NULL) return;
    size_t count = trace->meta_count++;
    trace->meta = dl_realloc(trace->meta, 2 * (count + 1), sizeof(char *), "meta");
    trace->meta[2 * count] = dl_strdup(key);
    va_start(args, format);
    trace->meta[2 * count + 1] = dl_vformat(format, args);
    va_end(args);
}

void dl_trace_builder_finish(dl_trace_builder *builder, dl_trace *trace)
{
    if (builder->invalid > 0) {
        dl_trace_builder_meta(builder, "invalid_records", "%" PRIu64, builder->invalid);
    }
    *trace = builder->trace;
    trace->late_ends = dl_activities_cut_late_ends(trace->activities, trace->activity_count,
                                                   &trace->late_worst_ns);
    builder->trace = (dl_trace){0};
    dl_trace_builder_free(builder);
}

dl_read_trace *dl_read_add(dl_read_traces *traces)
{
    dl_read_trace *item = &DL_APPEND(traces->items, traces->count, "traces of a file");
    *item = (dl_read_trace){0};
    return item;
}

void dl_read_note(dl_read_trace *item, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    DL_APPEND(item->notes.lines, item->notes.count, "notes") = dl_vformat(format, args);
    va_end(args);
}
