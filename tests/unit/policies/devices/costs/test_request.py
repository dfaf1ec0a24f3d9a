import pytest

from policies.devices.costs import CannotSelect, CostListing, Selection, SetRequest, compile_costs, select

TABLE = compile_costs(CostListing(present=("gpu/0", "gpu/1", "gpu/2", "nic/0")))

MANY = frozenset(f"c/{i}" for i in range(9, 30))


def test_a_request_that_can_be_met_is_not_refused() -> None:
    wanted = SetRequest({"gpu": 2, "nic": 1}, frozenset({"gpu/1", "gpu/7"}), frozenset({"gpu/2"}))
    assert isinstance(select(TABLE, wanted), Selection)


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        (SetRequest({}), "nothing is requested"),
        (SetRequest({"gpu": 0}), "nothing is requested"),
        (SetRequest({"gpus": 1}), "gpus: no instance of this type is present; did you mean gpu?"),
        (SetRequest({"xyz": 1}), "xyz: no instance of this type is present; known types: gpu, nic"),
        (SetRequest({"gpu": 4}), "gpu: 4 requested, 3 free (3 present, 0 busy)"),
        (SetRequest({"gpu": 3}, frozenset({"gpu/0"})), "gpu: 3 requested, 2 free (3 present, 1 busy)"),
        (
            SetRequest({"gpu": 1}, must=frozenset({"gpu/1", "gpu/0"})),
            "gpu: 1 requested, but 2 must be in the set: gpu/0",
        ),
        (SetRequest({"gpu": 1}, must=frozenset({"nic/0"})), "nic/0 must be in the set, but no nic is requested"),
        (SetRequest({"gpu": 1}, must=frozenset({"gpu/9"})), "gpu/9 must be in the set, but is not present"),
        (SetRequest({"gpu": 1}, frozenset({"gpu/1"}), frozenset({"gpu/1"})), "gpu/1 must be in the set, but is busy"),
    ],
)
def test_a_refusal_names_the_type_or_the_instance(wanted: SetRequest, problem: str) -> None:
    refused = select(TABLE, wanted)
    assert isinstance(refused, CannotSelect)
    assert problem in refused.problem


@pytest.mark.parametrize(
    ("present", "wanted", "problem"),
    [
        (8, SetRequest({"xyz": 1}), "known types: t0, t1, t2, t3, t4, t5, t6, t7"),
        (10, SetRequest({"xyz": 1}), "known types: t0, t1, t2, t3, t4, t5, t6, t7 and 2 more"),
        (
            0,
            SetRequest({}),
            "nothing is requested: give request: {TYPE: COUNT} or --request TYPE=COUNT; known types: none",
        ),
        (1, SetRequest({"t0": 2}, must=frozenset({"t0/10", "t0/9"})), "t0/9 must be in the set, but is not present"),
        (1, SetRequest({"t0": 1}, must=MANY), "c/9 must be in the set, but no c is requested"),
    ],
)
def test_a_refusal_is_bounded_and_names_the_first(present: int, wanted: SetRequest, problem: str) -> None:
    refused = select(compile_costs(CostListing(present=tuple(f"t{i}/0" for i in range(present)))), wanted)
    assert isinstance(refused, CannotSelect)
    assert refused.problem.endswith(problem)


def test_a_type_without_its_domain_is_known_by_the_first_that_has_it() -> None:
    table = compile_costs(CostListing(present=("b.com/gpu/0", "a.com/gpu/0", "c.com/gpu/0")))
    refused = select(table, SetRequest({"gpu": 1}))
    assert isinstance(refused, CannotSelect)
    assert refused.problem == "gpu: no instance of this type is present; did you mean a.com/gpu?"
