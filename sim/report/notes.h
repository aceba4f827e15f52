/* Notes on a study beside its results: costs that are not known and so are left out, costs of another
 * GPU, scaled or not, and traces. */
#ifndef DL_SIM_NOTES_H
#define DL_SIM_NOTES_H

#include "sim/sweep.h"

/* The notes, each once, as strings of their own in an array of *count; dl_study_notes_free. After
 * dl_study_read_costs, and after costs were switched off (what is off need not be known). */
char **dl_study_notes(const dl_study *study, size_t *count, size_t *leading);
void dl_study_notes_free(char **notes, size_t count);

/* Notes on the traces of the costs (sim/traced.h): their own steps, and the collectives that the
 * rows leave out. Likewise; dl_study_notes_free. */
char **dl_traced_notes(const dl_study *study, const dl_sweep *sweep, size_t *count);

/* Notes that the cost files of the study hold, each once, "FILE: text". Likewise. */
char **dl_file_notes(const dl_study *study, size_t *count);

#endif
