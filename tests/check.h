/* cmocka with the headers that it needs in front, guards of local variables, and the checks that all
 * tests share. */
#ifndef DL_TESTS_CHECK_H
#define DL_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h> /* needs those above */

#include "common/alloc.h"
#include "common/status.h"

/* The name of a status in messages. */
static inline const char *status_name(dl_status code)
{
    static const char *const names[] = {"ok",    "usage",  "io",   "parse",       "name",
                                        "range", "format", "data", "unsupported", "system"};
    return (unsigned)code < sizeof names / sizeof *names ? names[code] : "unknown";
}

/* The text must hold the part; shows both if not. */
#define assert_contains(text, part)                                                              \
    do {                                                                                         \
        if (strstr((text), (part)) == NULL) fail_msg("'%s' does not hold '%s'", (text), (part)); \
    } while (0)

#endif
