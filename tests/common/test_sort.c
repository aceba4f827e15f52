#include "common/sort.h"

#include <stdlib.h>
#include <string.h>

#include "tests/check.h"

typedef struct person {
    const char *name;
    int age;
    size_t number;
} person;

DL_ORDER(by_name_and_age, person, DL_BY_TEXT(name), DL_BY_DESCENDING(age), DL_BY(number));
DL_ORDER(by_number, person, DL_BY(number));
DL_ORDER_OF_POINTERS(by_age, person, DL_BY(age), DL_COMPARE(a, b));

/* The first non-zero term decides, whatever the later ones are. */
static void test_terms_decide_in_order(void **state DL_UNUSED)
{
    person people[] = {{"b", 1, 0}, {"a", 1, 1}, {"b", 2, 2}, {"a", 1, 3}, {"a", 5, 4}};
    static const size_t sorted[] = {4, 1, 3, 2, 0};
    qsort(people, 5, sizeof *people, by_name_and_age);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(people[i].number, sorted[i]);
    qsort(people, 5, sizeof *people, by_number);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(people[i].number, i);
}

static void test_pointers_are_ordered_by_what_they_lead_to(void **state DL_UNUSED)
{
    const person people[] = {{"x", 3, 0}, {"y", 2, 1}, {"z", 2, 2}};
    const person *order[] = {&people[2], &people[0], &people[1]};
    qsort(order, 3, sizeof *order, by_age);
    assert_ptr_equal(order[0], &people[1]);
    assert_ptr_equal(order[1], &people[2]);
    assert_ptr_equal(order[2], &people[0]);
}

/* Every boundary of every short array, and an empty one. */
static void test_bisection_finds_the_first_that_is_not_before(void **state DL_UNUSED)
{
    for (size_t count = 0; count < 9; count++) {
        for (size_t boundary = 0; boundary <= count; boundary++) {
            size_t place;
            DL_BISECT(place, count, place < boundary);
            assert_int_equal(place, boundary);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_terms_decide_in_order),
        cmocka_unit_test(test_pointers_are_ordered_by_what_they_lead_to),
        cmocka_unit_test(test_bisection_finds_the_first_that_is_not_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
