/* What a user should know of a study beside its results: costs that are not known and so are left out,
 * costs of another GPU, scaled or not. */
#ifndef DL_SIM_STUDY_NOTES_H
#define DL_SIM_STUDY_NOTES_H

#include "sim/scenario/study.h"

/* The notes, each once, as strings of their own in an array of *count; dl_study_notes_free. After
 * dl_study_read_costs, and after costs were switched off (what is off need not be known). */
char **dl_study_notes(const dl_study *study, size_t *count);
void dl_study_notes_free(char **notes, size_t count);

#endif
