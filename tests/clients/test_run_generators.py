"""Verdicts of run_generators.py on known values, and the ledger of a run of generate.py; no
PyTorch."""

import generate
import run_generators


def row(name, predicted_s, measured_s, change=0.0, waits=(0.1, 0.1), ledger=((8, 8, 0), (8, 8, 0))):
    own = {"update_s": predicted_s, "waits": waits[0], "ages": {0: 3, 1: 1}, "ledger": ledger[0]}
    run = {"update_s": measured_s, "waits": waits[1], "ages": {0: 1, 1: 1}, "ledger": ledger[1]}
    return run_generators.Row(name, own, {**own, "update_s": measured_s}, run, change)


def check_verdicts():
    """1.0 against 1.25 and 2.0 against 2.0 s: errors of 20 and 0 %, mean 10 %. Ages of 3/4, 1/4 and
    1/2, 1/2: a variation of 1/4."""
    rows = [row("bound 1", 1.0, 1.25), row("bound 0", 2.0, 2.0, waits=(0.1, 0.15))]
    found = run_generators.verdicts(rows)
    assert [holds for _, holds in found] == [False, False, False, True, True], found
    assert "mean error 10.00 %" in found[0][0] and "largest 20.00 %" in found[0][0], found
    assert "0.050" in found[1][0] and "0.250" in found[2][0], found
    slow = [row("bound 1", 1.0, 2.5), row("bound 0", 2.0, 2.0)]
    assert run_generators.verdicts(slow)[4] == ("order: bound 1 is not faster than bound 0", False)
    other = [row("bound 1", 1.0, 1.0, ledger=((8, 8, 0), (9, 8, 0)))]
    assert run_generators.verdicts(other)[3] == ("ledgers: not equal: bound 1", False)


def check_speeds():
    """A run at other speeds is judged by the prediction at these speeds, and not at all beyond
    DISTURBED."""
    assert row("bound 1", 1.0, 1.25, change=0.1).judged()["update_s"] == 1.25
    assert row("bound 1", 1.0, 1.25, change=0.01).judged()["update_s"] == 1.0
    assert run_generators.say_verdict([row("bound 1", 1.0, 1.25, change=0.5)]) == 0
    assert run_generators.say_verdict([row("bound 1", 1.0, 1.25)]) == 1


class Quick(generate.Sleeping):
    token_s, request_token_s, train_fixed_s, train_token_s = 2e-4, 0, 0.02, 0


def check_ledger():
    """If the bound counts from the copied version, every group begun is used. If it counts from the
    update, three batches are begun on each copied version, and the third is older than age_max at
    the next copy: some groups are discarded even if the system delays the generator. 8 updates of 2
    groups."""
    for rule in ("ahead", "installed"):
        case = generate.Case(rule=rule, bound=1, copy_every=2, age_max=1, prompts=2, answers=2)
        run = generate.run(case, (Quick, Quick), [3, 4, 5], 8, 0)
        assert run["ages"] == {0: 8, 1: 8}, (rule, run)
        begun, used, discarded = run["ledger"]
        assert used == 16 and (discarded > 0) == (rule == "ahead"), (rule, run)
        assert begun == 16 if rule == "installed" else begun >= 16 + discarded, (rule, run)


if __name__ == "__main__":
    check_verdicts()
    check_speeds()
    check_ledger()
