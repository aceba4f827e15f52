/* Named values in a printf-like text, for JSON (common/json.h) and for tables (common/rows.h).
 *
 *   "batch=%lld step_ns|step=%gns error_frac|off %%=%+.1f%% row=%s"
 *
 *   NAME=CONVERSION          values stand between blanks
 *   NAME|HEADING=CONVERSION  with another heading for people than the name; an empty heading: in
 *                            files only; an empty name: for people only
 *
 * Conversions are %s, %hhd a truth value, %d %u %zu %lu %lld %llu, and of a double %g, %.3g, %+.1f,
 * which apply to text for people: files have all digits. %-s is left-aligned in its column, all
 * others are right-aligned. After a conversion, %% shows a fraction in per cent, ns a time as "12.3
 * ms" (%+gns: with a sign), B a size as "1.72 GB", B/s a rate. */
#ifndef DL_COMMON_MEMBERS_H
#define DL_COMMON_MEMBERS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum dl_member_kind {
    DL_MEMBER_TEXT, /* NULL: none */
    DL_MEMBER_TRUTH,
    DL_MEMBER_COUNT,
    DL_MEMBER_NUMBER
} dl_member_kind;

typedef struct dl_member {
    char name[64], heading[64];
    dl_member_kind kind;
    const char *text;
    int64_t count; /* of a truth value 1 or 0 */
    double number; /* of a count as well; NaN: none */
    bool is_signed, is_left;
    int digits; /* after the point or, `short_form`, in all; -1: not given */
    bool short_form;
    char unit[8]; /* "%", "ns", "B", "B/s" or "" */
} dl_member;

/* Reads the next member that *format describes, its value from *args, and advances *format; false
 * at the end of the text. A text that is not as above is a broken invariant. */
bool dl_member_next(dl_member *member, const char **format, va_list *args);

/* The value for people, as a new string: "" for none, "yes" for true. */
char *dl_member_text(const dl_member *member);

#endif
