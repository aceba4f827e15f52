/* Remarks that go with a result: what was assumed, left out or looks doubtful. They are collected
 * by the modules and printed by the program. */
#ifndef DL_CALIBRATE_NOTES_H
#define DL_CALIBRATE_NOTES_H

#include <stddef.h>
#include <stdio.h>

#include "common/status.h"

/* Owns its lines; zero before use, release with dl_notes_free. */
typedef struct dl_notes {
    char **lines; /* [count] one sentence each, without newline */
    size_t count;
} dl_notes;

void dl_notes_add(dl_notes *notes, const char *format, ...) DL_PRINTF(2, 3);
/* One after the other behind "  - ", lines of at most 80 columns broken between words. */
void dl_notes_print(const dl_notes *notes, FILE *out);

void dl_notes_free(dl_notes *notes);

#endif
