#include "sim/report/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"

typedef struct memory {
    char *text;
    size_t bytes;
    FILE *out;
} memory;

static FILE *begin(memory *m)
{
    m->out = open_memstream(&m->text, &m->bytes);
    return m->out;
}

static void assert_written(memory *m, const char *text)
{
    fclose(m->out);
    assert_string_equal(m->text, text);
    free(m->text);
}

static void text_is_nothing_but_text(void **state DL_UNUSED)
{
    memory m;
    dl_html(begin(&m), "<i a=\"%s\">%s</i>", "\" onclick='x'", "a<b>&\n\t\x01");
    assert_written(&m, "<i a=\"&quot; onclick=&#39;x&#39;\">a&lt;b&gt;&amp;\n  </i>");
}

static void numbers_go_as_by_printf(void **state DL_UNUSED)
{
    memory m;
    dl_html(begin(&m), "%d %lld %zu %+.1f %.4g %% %.*s.", -3, 4000000000LL, (size_t)7, 0.25, 12.0,
            2, "<b>");
    assert_written(&m, "-3 4000000000 7 +0.2 12 % &lt;b.");
    dl_html(begin(&m), "[%.1f]", (double)NAN);
    assert_written(&m, "[]");
}

typedef struct place {
    const char *name;
    double frac;
    const char *error, *mark;
} place;

static const char *error_of(const void *row)
{
    return ((const place *)row)->error;
}

static const char *mark_of(const void *row)
{
    return ((const place *)row)->mark;
}

static char *link_of(const void *row)
{
    return ((const place *)row)->mark[0] != '\0' ? dl_strdup("./a&b") : NULL;
}

static const char *class_of(const void *row)
{
    return ((const place *)row)->mark[0] != '\0' ? "marked" : NULL;
}

/* A column without a heading is only in files; NaN leaves its cell empty; a failure spans the cells
 * that it replaces and its mark's; other marks have their own cells. */
static void tables_are_rows_of_cells(void **state DL_UNUSED)
{
    static const dl_column columns[] = {
        {.heading = "<a", .form = DL_FORM_TEXT, DL_MEMBER(place, name), .link = link_of},
        {.name = "in_files", DL_MEMBER(place, frac)},
        {.heading = "b %", .form = DL_FORM_PERCENT, .digits = 1, DL_MEMBER(place, frac)},
        {.heading = "c", DL_MEMBER(place, frac)},
    };
    static const place rows[] = {
        {"x\ty", 0.05, NULL, "*"}, {"z", (double)NAN, NULL, ""}, {"w", 1, "too <large", "less"}};
    memory m;
    dl_column_table table = DL_COLUMN_TABLE(columns, rows, 3);
    table.failed = error_of;
    table.failed_from = 2;
    table.mark = mark_of;
    table.row_class = class_of;
    table.chosen = &rows[1];
    dl_html_table(begin(&m), "<1>", &table);
    assert_written(
        &m, "<div class=\"scroll table\" role=\"region\" tabindex=\"0\" aria-label=\"&lt;1&gt;\">\n"
            "<table>\n<caption>&lt;1&gt;</caption>\n<thead><tr><th scope=\"col\">&lt;a</th>"
            "<th scope=\"col\" class=\"number\">b %</th>"
            "<th scope=\"col\" class=\"number\">c</th><td></td></tr></thead>\n<tbody>\n"
            "<tr class=\"marked\"><th scope=\"row\"><a href=\"./a&amp;b\">x y</a></th>"
            "<td class=\"number\">5.0</td><td class=\"number\">0</td><td>*</td></tr>\n"
            "<tr class=\"best\"><th scope=\"row\">z</th><td class=\"number\"></td>"
            "<td class=\"number\"></td><td></td></tr>\n"
            "<tr class=\"marked\"><th scope=\"row\"><a href=\"./a&amp;b\">w</a></th>"
            "<td colspan=\"3\">too &lt;large; less</td></tr>\n"
            "</tbody>\n</table>\n</div>\n");
}

/* RFC 4648, section 10; and data cannot end its element. */
static void data_stay_data(void **state DL_UNUSED)
{
    static const char *const cases[][2] = {
        {"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
        {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"\xff\xfe\xfd", "//79"}};
    memory m;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_html_figure(begin(&m), cases[i][0], strlen(cases[i][0]), "a", "b");
        char *expected = dl_format("<figure><img alt=\"a\" src=\"data:image/svg+xml;base64,%s\">"
                                   "<figcaption>b</figcaption></figure>\n",
                                   cases[i][1]);
        assert_written(&m, expected);
        free(expected);
    }
    dl_html_data(begin(&m), "d", "{\"a\":\"</script>\"}");
    assert_written(&m, "<script type=\"application/json\" id=\"d\">"
                       "{\"a\":\"\\u003c/script>\"}</script>\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_nothing_but_text),
        cmocka_unit_test(numbers_go_as_by_printf),
        cmocka_unit_test(tables_are_rows_of_cells),
        cmocka_unit_test(data_stay_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
