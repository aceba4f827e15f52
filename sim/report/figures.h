/* Figures of a sweep, drawn by gnuplot with the scripts of plots/, each as an SVG picture in
 * memory. */
#ifndef DL_SIM_FIGURES_H
#define DL_SIM_FIGURES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/status.h"

/* A folder of its own for what gnuplot reads and writes. */
typedef struct dl_drawing {
    char *folder;
    int64_t limit_ns; /* longest wait for the figures that are drawn together */
} dl_drawing;

typedef struct dl_figure {
    const char *name;      /* of the script: plots/NAME.gp */
    const char *results;   /* a file of the drawing's folder */
    const char *histogram; /* likewise; NULL: none */
    /* Besides these, output and compact, as gnuplot has them: "by='group'"; NULL: none. Nothing
     * that a user names may be in it. */
    const char *variables;
    char *svg; /* [bytes] and a NUL; NULL: it was not drawn */
    size_t bytes;
    char *why_not; /* NULL: it was drawn */
} dl_figure;

/* Makes the folder, in $TMPDIR or /tmp; the limit becomes a minute. DL_ERR_IO. Release with
 * dl_drawing_end, which removes it and all that is in it. */
dl_status dl_drawing_begin(dl_drawing *drawing, dl_error *err) DL_MUST_CHECK;
void dl_drawing_end(dl_drawing *drawing);

/* Path of a file in the folder, as text of its own. */
char *dl_drawing_path(const dl_drawing *drawing, const char *name);

/* Draws figures[count] side by side, narrow (compact=1 of plots/common.gp). The scripts are those
 * of share/dlscale/plots (common/install.h). A figure that cannot be drawn says why: there is no
 * gnuplot, or it failed, or took longer than the limit. Only time in which this process waits
 * counts: none in which the machine, or all of a job, is paused. */
void dl_figures_draw(const dl_drawing *drawing, dl_figure *figures, size_t count);

/* Writes the figure as HTML (dl_html_figure), or why it is not there. */
void dl_figure_put(FILE *out, const dl_figure *figure, const char *alt, const char *caption);

void dl_figure_free(dl_figure *figure);

#endif
