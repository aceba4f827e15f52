/* Notes on a study beside its results: unknown costs, which are left out, costs of another GPU,
 * scaled or not, and traces. */
#ifndef DL_SIM_NOTES_H
#define DL_SIM_NOTES_H

#include "sim/sweep.h"

/* The notes, each once, as owned strings in an array of *count; release with dl_study_notes_free.
 * Call after dl_study_read_costs and after switching costs off (these need not be known). */
char **dl_study_notes(const dl_study *study, size_t *count, size_t *leading);
void dl_study_notes_free(char **notes, size_t count);

/* Notes on the traces of the costs (sim/traced.h): their own steps, and the collectives that the
 * rows leave out; and on measured collectives that no row has. Released likewise. */
char **dl_traced_notes(const dl_study *study, const dl_sweep *sweep, size_t *count);

/* Notes in the study's cost files, each once, "FILE: text". Released likewise. */
char **dl_file_notes(const dl_study *study, size_t *count);

#endif
