/* Access to a trace made by a reader. */
#ifndef DL_TESTS_TRACE_READ_TRACE_H
#define DL_TESTS_TRACE_READ_TRACE_H

#include "tests/check.h"

#include "trace/readers/reader.h"

/* Returns the n-th activity of a kind; fails if there are fewer. */
static inline const dl_activity *find(const dl_read_trace *item, dl_activity_kind kind, size_t n)
{
    for (size_t i = 0; i < item->trace.activity_count; i++) {
        if (item->trace.activities[i].kind == kind && n-- == 0) return &item->trace.activities[i];
    }
    fail_msg("there is no such %s", dl_activity_kind_name(kind));
    return NULL;
}

static inline size_t count(const dl_read_trace *item, dl_activity_kind kind)
{
    size_t found = 0;
    for (size_t i = 0; i < item->trace.activity_count; i++)
        found += item->trace.activities[i].kind == kind;
    return found;
}

static inline const char *name_of(const dl_read_trace *item, const dl_activity *activity)
{
    return item->trace.strings[activity->name];
}

static inline bool has_note(const dl_read_trace *item, const char *part)
{
    for (size_t i = 0; i < item->notes.count; i++) {
        if (strstr(item->notes.lines[i], part) != NULL) return true;
    }
    return false;
}

#endif
