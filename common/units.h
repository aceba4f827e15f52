/* Conversions between units, numbers with units as text, and the clock.
 *
 * A name's suffix is its unit (_ns, _s, _bytes, _bytes_per_s, _bytes_per_ns). Times of clocks and
 * of the event queue are int64_t nanoseconds; derived times may be double.
 * Prefixes are decimal (1 GB = 1e9 bytes); binary ones are always spelled KiB, MiB, GiB. */
#ifndef DL_COMMON_UNITS_H
#define DL_COMMON_UNITS_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

#define DL_NS_PER_S 1000000000LL

static inline double dl_ns_to_s(double ns)
{
    return ns * 1e-9;
}

static inline double dl_s_to_ns(double s)
{
    return s * 1e9;
}

/* Returns the time of a monotonic clock in ns (CLOCK_MONOTONIC, the same for all threads and
 * processes of a machine). */
int64_t dl_clock_ns(void);

/* Returns the CPU time used by the calling thread, in ns. */
int64_t dl_clock_thread_cpu_ns(void);

/* Measures work that does not block: the wall-clock time or, if another program used the core
 * meanwhile, the thread's CPU time, which is then less. */
typedef struct dl_stopwatch {
    int64_t start_ns, start_cpu_ns;
} dl_stopwatch;

dl_stopwatch dl_stopwatch_start(void);
int64_t dl_stopwatch_ns(const dl_stopwatch *watch);

#define DL_NS_MAX (INT64_C(1) << 62) /* 146 years */

/* Rounds a duration up to whole ns, as the event queue schedules it, limited to DL_NS_MAX. A NaN or
 * negative value is a broken invariant. */
static inline int64_t dl_ns_ceil(double ns)
{
    DL_ASSERT(ns >= 0.0, "duration %g ns", ns);
    if (!(ns < (double)DL_NS_MAX)) return DL_NS_MAX;
    const int64_t whole_ns = (int64_t)ns;
    return whole_ns + ((double)whole_ns < ns);
}

/* Parses a byte count: digits immediately followed by an optional B, kB, MB, GB, KiB, MiB, GiB. The
 * whole text must match. Returns DL_ERR_PARSE (no digits), DL_ERR_NAME (unknown unit), DL_ERR_RANGE
 * (over 2^64-1). */
dl_status dl_parse_bytes(const char *text, uint64_t *bytes, dl_error *err) DL_MUST_CHECK;

/* Parses a whole decimal number without surrounding text; a number with an exponent (25.6e6) has at
 * most 53 bits. Returns DL_ERR_PARSE if the text is not a number, DL_ERR_RANGE outside low <= value
 * <= high. */
dl_status dl_parse_int(const char *text, int64_t low, int64_t high, int64_t *value,
                       dl_error *err) DL_MUST_CHECK;

/* Parses a finite decimal number without surrounding text (no "inf", no "nan", no hexadecimal). low
 * and high may be infinite. Returns DL_ERR_PARSE if the text is not a number, DL_ERR_RANGE outside
 * low <= value <= high or beyond the largest double. */
dl_status dl_parse_double(const char *text, double low, double high, double *value,
                          dl_error *err) DL_MUST_CHECK;

/* Parses a count of 1 to 1e14, as "25.6e6" or "25.6M", where k is thousands, M millions, B or G
 * billions, T trillions. Returns the errors of dl_parse_double; DL_ERR_RANGE also for a count below
 * 1e6 that is not whole. */
dl_status dl_parse_count(const char *text, double *count, dl_error *err) DL_MUST_CHECK;

/* Buffer size for any double as text: sign, 17 digits, point, "e-308" and NUL. */
#define DL_DOUBLE_TEXT_BYTES 32

/* Writes the shortest of the texts with 15, 16 or 17 digits that strtod reads back to the same
 * double ("0.1", "inf", "nan"), and returns text. For machine-readable files. */
const char *dl_format_double(char text[DL_DOUBLE_TEXT_BYTES], double value);

/* Formats a duration for display ("12.3 us", "4.56 ms") into text[bytes] and returns text. */
const char *dl_format_ns(char *text, size_t bytes, double ns);

/* Like dl_format_ns with a sign ("+" for 0), for differences. */
const char *dl_format_signed_ns(char *text, size_t bytes, double ns);

/* Formats a size for display ("1.72 MB") into text[bytes] and returns text. */
const char *dl_format_bytes(char *text, size_t bytes, double size_bytes);

/* Texts in an array whose lifetime is the enclosing block. */
#define DL_NS_TEXT(ns) dl_format_ns((char[32]){0}, 32, (double)(ns))
#define DL_SIGNED_NS_TEXT(ns) dl_format_signed_ns((char[32]){0}, 32, (double)(ns))
#define DL_BYTES_TEXT(bytes) dl_format_bytes((char[32]){0}, 32, (double)(bytes))

#endif
