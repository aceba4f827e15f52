#include "sim/report/html.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/install.h"

static const char style[] =
    ":root { color-scheme: light dark; --paper: #fff; --ink: #1d2329; --soft: #5a6470; --line: "
    "#d5dae0; "
    "--tint: #f3f5f8; --link: #0b5cad; --good: #1c6e3d; --bad: #a5360b; }\n"
    "@media (prefers-color-scheme: dark) { :root { --paper: #14181d; --ink: #e4e8ec; --soft: "
    "#a4aeb9; "
    "--line: #39424d; --tint: #1e242b; --link: #7db8f5; --good: #7fd3a0; --bad: #f5a07c; } }\n"
    "* { box-sizing: border-box; }\n"
    "body { margin: 0 auto; max-width: 66rem; padding: 1rem clamp(0.8rem, 3vw, 2rem) 4rem; "
    "background: var(--paper); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; "
    "overflow-wrap: break-word; }\n"
    "h1 { font-size: 1.7rem; line-height: 1.2; margin: 0.5rem 0; }\n"
    "h2 { font-size: 1.3rem; margin: 2.4rem 0 0.6rem; padding-top: 0.6rem; "
    "border-top: 2px solid var(--line); }\n"
    "p, ul { margin: 0.5rem 0; max-width: 46rem; }\n"
    "a, summary { color: var(--link); }\n"
    "summary { cursor: pointer; padding: 0.2rem 0; }\n"
    ".badges, .sources, figcaption, .remarks { font-size: 0.92rem; }\n"
    ".sources, figcaption { color: var(--soft); }\n"
    ".badge { border: 1px solid currentColor; border-radius: 4px; padding: 0 0.4rem; "
    "font-weight: 600; color: var(--soft); }\n"
    ".badge.predicted { color: var(--good); }\n"
    ".badges strong, tr.missed td:nth-of-type(1), tr.failed td { color: var(--bad); }\n"
    ".scroll { overflow-x: auto; margin: 0.8rem 0; border: 1px solid var(--line); "
    "border-radius: 6px; }\n"
    /* A wide table extends beyond the text, on both sides. */
    ".scroll.table { position: relative; left: 50%; transform: translateX(-50%); "
    "width: max-content; min-width: 100%; max-width: calc(100vw - 2.5rem); }\n"
    "table { border-collapse: collapse; font-size: 0.9rem; min-width: 100%; }\n"
    "caption { text-align: left; padding: 0.4rem; color: var(--soft); font-size: 0.85rem; "
    "}\n"
    "th, td { padding: 0.25rem 0.4rem; text-align: left; border-top: 1px solid var(--line); "
    "vertical-align: top; font-weight: 500; }\n"
    "thead th { background: var(--tint); font-weight: 600; vertical-align: bottom; }\n"
    "tbody th:not(.number) { min-width: min(15rem, 35vw); }\n"
    ".number { text-align: right; font-variant-numeric: tabular-nums; }\n"
    "tbody .number { white-space: nowrap; }\n"
    "tr.fitted, tr.traced { color: var(--soft); }\n"
    "tr.contradiction, tr.error { font-style: italic; }\n"
    "tr.best th, tr.best td { font-weight: 700; }\n"
    ".answer { font-size: 1.15rem; font-weight: 500; }\n"
    "th button { font: inherit; color: inherit; background: none; border: 0; padding: 0; "
    "text-align: inherit; cursor: pointer; }\n"
    "th[aria-sort=ascending] button::after { content: \" \\25B4\"; }\n"
    "th[aria-sort=descending] button::after { content: \" \\25BE\"; }\n"
    ".rows { display: block; font-size: 0.85rem; color: var(--soft); }\n"
    ".rows input { font: inherit; color: var(--ink); background: var(--paper); border: 1px solid "
    "var(--line); border-radius: 4px; padding: 0.15rem 0.4rem; margin-left: 0.4rem; }\n"
    "pre { margin: 0; padding: 0.6rem; font: 0.8rem/1.4 ui-monospace, monospace; }\n"
    ".figures { columns: 21rem; column-gap: 1rem; margin: 1rem 0; }\n"
    "figure { margin: 0 0 1rem; break-inside: avoid; border: 1px solid var(--line); border-radius: "
    "6px; overflow: hidden; }\n"
    "figure img { display: block; width: 100%; max-width: 30rem; background: #fff; margin: 0 auto; "
    "}\n"
    "figure.wide { overflow-x: auto; }\n"
    "figure.wide img { max-width: 62rem; min-width: 42rem; }\n"
    "figcaption { padding: 0.4rem 0.7rem; border-top: 1px solid var(--line); }\n"
    "@media print { body { max-width: none; padding: 0; font-size: 10pt; } table { font-size: 8pt; "
    "} "
    "figure, tr { break-inside: avoid; } pre { white-space: pre-wrap; } }\n";

/* A click on a heading sorts a table of several rows, a second click reverses the order; large
 * tables have a field that keeps only the rows containing all its words. */
static const char script[] =
    "<script>\n"
    "'use strict';\n"
    "for (const table of document.querySelectorAll('main table')) {\n"
    "  const body = table.tBodies[0], rows = body ? [...body.rows] : [];\n"
    "  if (rows.length < 4) continue;\n"
    "  const units = { ns: 1e-9, us: 1e-6, ms: 1e-3, min: 60, h: 3600, kB: 1e3, MB: 1e6, GB: 1e9, "
    "TB: 1e12 };\n"
    "  const text = (row, i) => row.cells[i] ? row.cells[i].textContent : '';\n"
    "  const number = t => { const m = /^([-+]?[\\d.]+(?:e[-+]?\\d+)?)\\s*([A-Za-z]*)/.exec(t);\n"
    "    return m ? Number(m[1]) * (units[m[2]] || 1) : undefined; };\n"
    "  [...table.tHead.rows[0].cells].forEach((head, i) => {\n"
    "    if (head.tagName !== 'TH') return;\n"
    "    const button = document.createElement('button');\n"
    "    button.type = 'button';\n"
    "    button.append(...head.childNodes);\n"
    "    head.append(button);\n"
    "    button.addEventListener('click', () => {\n"
    "      const first = head.classList.contains('number') ? 'descending' : 'ascending';\n"
    "      const other = first === 'ascending' ? 'descending' : 'ascending';\n"
    "      const order = head.getAttribute('aria-sort') === first ? other : first;\n"
    "      for (const h of head.parentNode.cells) h.removeAttribute('aria-sort');\n"
    "      head.setAttribute('aria-sort', order);\n"
    "      const sign = order === 'ascending' ? 1 : -1, last = order === 'ascending' ? Infinity : "
    "-Infinity;\n"
    "      const value = row => { const v = number(text(row, i)); return v === undefined ? last : "
    "v; "
    "};\n"
    "      rows.sort((a, b) => sign * (head.classList.contains('number') ? value(a) - value(b) || "
    "0\n"
    "        : text(a, i).localeCompare(text(b, i), undefined, { numeric: true })));\n"
    "      body.append(...rows);\n"
    "    });\n"
    "  });\n"
    "  if (rows.length < 12) continue;\n"
    "  const label = document.createElement('label'), field = document.createElement('input');\n"
    "  label.className = 'rows';\n"
    "  field.type = 'search';\n"
    "  label.append('Rows with', field);\n"
    "  table.closest('.scroll').before(label);\n"
    "  field.addEventListener('input', () => {\n"
    "    const words = field.value.toLowerCase().split(/\\s+/);\n"
    "    for (const row of rows) {\n"
    "      const all = [...row.cells].map(cell => cell.textContent).join(' ').toLowerCase();\n"
    "      row.hidden = !words.every(word => all.includes(word));\n"
    "    }\n"
    "  });\n"
    "}\n"
    "</script>\n";

static void write_text(FILE *out, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        switch (*c) {
        case '&': fputs("&amp;", out); break;
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '"': fputs("&quot;", out); break;
        case '\'': fputs("&#39;", out); break;
        default: fputc(iscntrl((unsigned char)*c) && *c != '\n' ? ' ' : *c, out);
        }
    }
}

typedef struct arguments {
    va_list list;
} arguments;

/* Prints one conversion, whose text after the '%' is at `format`. Returns the rest of the
 * format. */
static const char *convert(FILE *out, const char *format, arguments *args)
{
    char spec[16] = "%";
    const size_t flags = strspn(format, "+-0123456789.*");
    const char *kind = format + flags;
    const size_t length = strspn(kind, "lz");
    snprintf(spec, sizeof spec, "%%%.*s", (int)(flags + length + 1), format);
    switch (kind[length]) {
    case 's':
        if (strcmp(spec, "%.*s") == 0) {
            const int bytes = va_arg(args->list, int);
            DL_AUTOFREE char *part = dl_strndup(va_arg(args->list, const char *), (size_t)bytes);
            write_text(out, part);
        } else {
            write_text(out, va_arg(args->list, const char *));
        }
        break;
    case 'd':
        if (length == 0) fprintf(out, spec, va_arg(args->list, int));
        if (length == 2) fprintf(out, spec, va_arg(args->list, long long));
        break;
    case 'u': fprintf(out, spec, va_arg(args->list, size_t)); break;
    case 'f':
    case 'g': {
        const double number = va_arg(args->list, double);
        if (!isnan(number)) fprintf(out, spec, number);
        break;
    }
    default: DL_ASSERT(kind[length] == '%', "'%s' in a format of HTML", spec); fputc('%', out);
    }
    return kind + length + 1;
}

void dl_html(FILE *out, const char *format, ...)
{
    arguments args;
    va_start(args.list, format);
    while (*format != '\0') {
        if (*format == '%') {
            format = convert(out, format + 1, &args);
        } else {
            fputc(*format++, out);
        }
    }
    va_end(args.list);
}

void dl_html_begin(FILE *out, const char *title)
{
    dl_html(out,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
            "<title>%s</title>\n<style>\n",
            title);
    fputs(style, out);
    dl_html(out, "</style>\n</head>\n<body>\n<main>\n<h1>%s</h1>\n", title);
}

void dl_html_end(FILE *out)
{
    fputs("</main>\n", out);
    fputs(script, out);
    fputs("</body>\n</html>\n", out);
}

static void put_base64(FILE *out, const char *text, size_t bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *from = (const unsigned char *)text;
    for (size_t i = 0; i < bytes; i += 3) {
        const size_t left = bytes - i;
        const unsigned group = (unsigned)from[i] << 16 |
                               (left > 1 ? (unsigned)from[i + 1] << 8 : 0) |
                               (left > 2 ? from[i + 2] : 0u);
        fputc(digits[group >> 18], out);
        fputc(digits[group >> 12 & 63], out);
        fputc(left > 1 ? digits[group >> 6 & 63] : '=', out);
        fputc(left > 2 ? digits[group & 63] : '=', out);
    }
}

void dl_html_data(FILE *out, const char *id, const char *json)
{
    fprintf(out, "<script type=\"application/json\" id=\"%s\">", id);
    for (const char *c = json; *c != '\0'; c++)
        *c == '<' ? fputs("\\u003c", out) : fputc(*c, out);
    fputs("</script>\n", out);
}

bool dl_html_figures_script(FILE *out)
{
    DL_AUTOFREE char *path = dl_share_path("page/figures.js"), *text = NULL;
    size_t bytes = 0;
    const bool is_there = dl_file_read(path, &text, &bytes, NULL) == DL_OK;
    if (is_there) {
        fprintf(out, "<script>\n%s</script>\n", text);
    } else {
        dl_html(out, "<p class=\"sources\">There are no figures, as %s is not there.</p>\n", path);
    }
    return is_there;
}

void dl_html_figures(FILE *out, const char *json)
{
    fputs("<div class=\"figures\" id=\"figures\"></div>\n"
          "<noscript><p>Figures need JavaScript.</p></noscript>\n",
          out);
    dl_html_data(out, "figures-data", json);
}

void dl_html_show(FILE *out)
{
    fputs("<script>dlscale.show();</script>\n", out);
}

/* Figures wider than this scroll instead of shrinking. */
#define WIDE_PX 500

void dl_html_figure(FILE *out, const char *svg, size_t bytes, const char *alt, const char *caption)
{
    const char *box = strstr(svg, "viewBox=\"0 0 ");
    const bool wide = box != NULL && strtol(box + strlen("viewBox=\"0 0 "), NULL, 10) > WIDE_PX;
    fputs(wide ? "<figure class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"figure\">"
               : "<figure>",
          out);
    dl_html(out, "<img alt=\"%s\" src=\"data:image/svg+xml;base64,", alt);
    put_base64(out, svg, bytes);
    dl_html(out, "\"><figcaption>%s</figcaption></figure>\n", caption);
}

void dl_html_details(FILE *out, const char *title, const char *text)
{
    dl_html(out,
            "<details><summary>%s</summary>\n<div class=\"scroll\" role=\"region\" tabindex=\"0\" "
            "aria-label=\"%s\"><pre>%s</pre></div>\n</details>\n",
            title, title, text);
}

/* --- tables ---------------------------------------------------------------------------------- */

static const char *failure_of(const dl_column_table *table, const void *row)
{
    return table->failed != NULL ? table->failed(row) : NULL;
}

/* Returns "* 103 % each: REASON", owned by the caller; "" for a row without mark and remark. */
static char *row_end_text(const dl_column_table *table, const void *row)
{
    DL_AUTOFREE char *remark = table->remark != NULL ? table->remark(row) : NULL;
    const char *mark = table->mark != NULL ? table->mark(row) : "";
    return dl_format("%s%s%s", mark, mark[0] != '\0' && remark != NULL ? " " : "",
                     remark != NULL ? remark : "");
}

static bool has_ends(const dl_column_table *table)
{
    bool has = false;
    for (size_t r = 0; r < table->row_count && !has; r++) {
        DL_AUTOFREE char *text = row_end_text(table, dl_column_table_row(table, r));
        has = text[0] != '\0';
    }
    return has;
}

static void put_cell(FILE *out, const dl_column *column, const void *row, bool first)
{
    DL_AUTOFREE char *text = dl_column_cell_text(column, row);
    DL_AUTOFREE char *link = column->link != NULL ? column->link(row) : NULL;
    fprintf(out, "<%s%s>", first ? "th scope=\"row\"" : "td",
            column->form == DL_FORM_TEXT ? "" : " class=\"number\"");
    if (link != NULL) dl_html(out, "<a href=\"%s\">", link);
    dl_html(out, "%s", text);
    fprintf(out, "%s%s", link != NULL ? "</a>" : "", first ? "</th>" : "</td>");
}

static void put_row(FILE *out, const dl_column_table *table, const void *row, bool ends)
{
    const char *failure = failure_of(table, row);
    const char *own = table->row_class != NULL ? table->row_class(row) : NULL;
    const char *best = row == table->chosen ? "best" : NULL;
    size_t left = 0;
    bool first = true;
    if (own != NULL && best != NULL) {
        dl_html(out, "<tr class=\"%s %s\">", own, best);
    } else {
        dl_html(out, own != NULL || best != NULL ? "<tr class=\"%s\">" : "<tr>",
                own != NULL ? own : best);
    }
    for (size_t c = 0; c < table->column_count; c++) {
        const dl_column *column = dl_column_table_column(table, c);
        if (column->heading == NULL || !dl_column_has_values(table, column)) continue;
        if (failure != NULL && c >= table->failed_from) {
            left++;
        } else {
            put_cell(out, column, row, first);
        }
        first = false;
    }
    DL_AUTOFREE char *end = ends ? row_end_text(table, row) : NULL;
    if (left > 0) {
        dl_html(out, "<td colspan=\"%zu\">%s%s%s</td>", left + ends, failure,
                ends && end[0] != '\0' ? "; " : "", ends ? end : "");
    } else if (ends) {
        dl_html(out, "<td>%s</td>", end);
    }
    fputs("</tr>\n", out);
}

void dl_html_table(FILE *out, const char *caption, const dl_column_table *table)
{
    const bool ends = has_ends(table);
    dl_html(
        out,
        "<div class=\"scroll table\" role=\"region\" tabindex=\"0\" aria-label=\"%s\">\n<table>\n"
        "<caption>%s</caption>\n<thead><tr>",
        caption, caption);
    for (size_t c = 0; c < table->column_count; c++) {
        const dl_column *column = dl_column_table_column(table, c);
        if (column->heading == NULL || !dl_column_has_values(table, column)) continue;
        dl_html(out,
                column->form == DL_FORM_TEXT ? "<th scope=\"col\">%s</th>"
                                             : "<th scope=\"col\" class=\"number\">%s</th>",
                column->heading);
    }
    fputs(ends ? "<td></td></tr></thead>\n<tbody>\n" : "</tr></thead>\n<tbody>\n", out);
    for (size_t r = 0; r < table->row_count; r++)
        put_row(out, table, dl_column_table_row(table, r), ends);
    fputs("</tbody>\n</table>\n</div>\n", out);
}
