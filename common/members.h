/* Named values in a printf-like text, for JSON (common/json.h) and for tables (common/rows.h).
 *
 *   "batch=%lld step_ns|step=%gns error_frac|off %%=%+.1f%% row=%s"
 *
 *   NAME=CONVERSION          values are separated by blanks
 *   NAME|HEADING=CONVERSION  displayed heading different from the name; empty heading: in files
 *                            only; empty name: displayed only
 *
 * Conversions are %s, %hhd for a boolean, %d %u %zu %lu %lld %llu, and for a double %g, %.3g,
 * %+.1f, which apply to displayed text: files have all digits. %-s is left-aligned in its column,
 * all others are right-aligned. After a conversion, %% displays a fraction in per cent, ns a time
 * as "12.3 ms" (%+gns: with a sign), B a size as "1.72 GB", B/s a rate. */
#ifndef DL_COMMON_MEMBERS_H
#define DL_COMMON_MEMBERS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum dl_member_kind {
    DL_MEMBER_TEXT, /* NULL: no value */
    DL_MEMBER_TRUTH,
    DL_MEMBER_COUNT,
    DL_MEMBER_NUMBER
} dl_member_kind;

typedef struct dl_member {
    char name[64], heading[64];
    dl_member_kind kind;
    const char *text;
    int64_t count; /* 1 or 0 for a boolean */
    double number; /* also set for a count; NaN: no value */
    bool is_signed, is_left;
    int digits; /* digits after the point or, with `short_form`, significant digits; -1: not
                 * given */
    bool short_form;
    char unit[8]; /* "%", "ns", "B", "B/s" or "" */
} dl_member;

/* Reads the next member described by *format, with its value from *args, and advances *format;
 * returns false at the end of the text. An invalid text is a broken invariant. */
bool dl_member_next(dl_member *member, const char **format, va_list *args);

/* Returns the displayed value, as a new string: "" for no value, "yes" for true. */
char *dl_member_text(const dl_member *member);

#endif
