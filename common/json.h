/* Values of JSON written to a stream. Who writes sees to commas, braces and write errors. */
#ifndef DL_COMMON_JSON_H
#define DL_COMMON_JSON_H

#include <stdio.h>

/* The text in quotes, escaped; a byte that is no valid UTF-8 becomes U+FFFD. */
void dl_json_string(FILE *out, const char *text);

/* The shortest text that reads back to the same double; NaN and infinities, which JSON has not,
 * become null. */
void dl_json_number(FILE *out, double value);

#endif
